//! The bytes of a connection: a client that does not take its answer is not waited for without end, and what the HTTP library
//! refuses by itself is answered in JSON as everything else.

use super::registry::Connection;
use std::future::Future;
use std::io::{Error, ErrorKind, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};

/// Bytes per second that an answer must go at, once its client has been waited for as long as the limit says.
const SLOWEST: u64 = 16 << 10;

/// Where every connection is at work.
pub(super) const BUSY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n\
content-type: application/json\r\ncontent-length: 44\r\n\r\n{\"error\":\"the server is busy; try again\"}  \n";

/// A connection with its deadlines.
pub(super) struct Stream {
    inner: TcpStream,
    connection: Arc<Connection>,
    write_timeout: Duration,
    /// When an answer that does not go out must have gone.
    deadline: Option<Pin<Box<Sleep>>>,
    /// An answer of ours in place of one without words, how much of it has gone, and the length of the one it stands for.
    instead: Option<(Vec<u8>, usize, usize)>,
}

impl Stream {
    pub(super) fn new(inner: TcpStream, connection: Arc<Connection>, write_timeout: Duration) -> Stream {
        Stream { inner, connection, write_timeout, deadline: None, instead: None }
    }

    /// Writes what the client takes; an error once it has taken too little for too long.
    fn poll_some(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        match Pin::new(&mut self.inner).poll_write(cx, bytes) {
            Poll::Ready(written) => {
                if let (Ok(count), Some(deadline)) = (&written, &mut self.deadline) {
                    let more = Duration::from_micros(*count as u64 * 1_000_000 / SLOWEST);
                    let later = deadline.deadline() + more;
                    deadline.as_mut().reset(later);
                }
                Poll::Ready(written)
            }
            Poll::Pending => {
                self.connection.stuck(true);
                let until = Instant::now() + self.write_timeout;
                let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep_until(until)));
                ready!(deadline.as_mut().poll(cx));
                Poll::Ready(Err(Error::new(ErrorKind::TimedOut, "the client does not take its answer")))
            }
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let read = Pin::new(&mut self.inner).poll_read(cx, buffer);
        self.connection.waiting(read.is_pending());
        read
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        let this = &mut *self;
        if this.instead.is_none() {
            this.instead = in_words(bytes).map(|answer| (answer, 0, bytes.len()));
        }
        let Some((answer, mut gone, stands_for)) = this.instead.take() else {
            return this.poll_some(cx, bytes);
        };
        while gone < answer.len() {
            match this.poll_some(cx, &answer[gone..]) {
                Poll::Ready(Ok(count)) => gone += count,
                Poll::Ready(Err(e)) => return Poll::Ready(Err(e)),
                Poll::Pending => {
                    this.instead = Some((answer, gone, stands_for));
                    return Poll::Pending;
                }
            }
        }
        Poll::Ready(Ok(stands_for))
    }

    /// Called when all that there was to write is written.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.deadline = None;
        self.connection.stuck(false);
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// The HTTP library answers what is no HTTP by a bare status. All refusals of ours have a body, so an empty one is its own, and
/// this is what is sent in its place.
fn in_words(bytes: &[u8]) -> Option<Vec<u8>> {
    let rest = bytes.strip_prefix(b"HTTP/1.1 4")?;
    let head = std::str::from_utf8(rest).ok()?.strip_suffix("\r\n\r\n")?;
    if !head.lines().any(|line| line.eq_ignore_ascii_case("content-length: 0")) {
        return None;
    }
    let status = head.lines().next().unwrap_or_default();
    let why = match status.get(..2) {
        Some("14") => "the path is too long",
        Some("31") => "the head of the request is too large",
        _ => "the request is no HTTP/1.1 that can be read",
    };
    let body = serde_json::json!({ "error": why }).to_string();
    let head = format!(
        "HTTP/1.1 4{status}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    Some((head + &body).into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_refusals_get_words_and_others_stay() {
        let bare =
            b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        let text = String::from_utf8(in_words(bare).unwrap()).unwrap();
        assert!(text.starts_with("HTTP/1.1 431 Request Header Fields Too Large\r\n"), "{text}");
        assert!(text.ends_with(r#"{"error":"the head of the request is too large"}"#), "{text}");
        assert!(in_words(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\n{}").is_none());
        assert!(in_words(b"HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n").is_none());
    }

    #[test]
    fn the_busy_answer_is_as_long_as_it_says() {
        let text = std::str::from_utf8(BUSY).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())), "{}", body.len());
        assert!(serde_json::from_str::<serde_json::Value>(body).is_ok());
    }
}
