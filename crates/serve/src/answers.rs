//! Memory for answers. One that is large is counted from before it begins to grow until its client has taken it: neither many
//! questions with long answers at once nor clients that do not read may fill the memory.

use crate::App;
use crate::error::{Refusal, Reply};
use crate::work::busy;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hyper::body::{Body as _, Bytes, Frame, SizeHint};
use serde::Serialize;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Answers up to this size are not counted: their number is bounded by the number of connections.
const SMALL: usize = 64 << 10;
/// Memory is counted in steps of this size.
const STEP: usize = 4 << 10;
/// An answer goes to the HTTP library in pieces of this size: it copies what it is given and keeps the copy until the client takes
/// it, which nobody counts.
const PIECE: usize = 16 << 10;
/// Longest wait for room.
const PATIENCE: Duration = Duration::from_secs(5);

/// Room for all answers.
pub(crate) struct AnswerMemory {
    most: usize,
    free: Arc<Semaphore>,
}

/// The room of one answer, given back when dropped; a small answer needs none.
#[derive(Debug)]
pub(crate) struct AnswerRoom(Option<OwnedSemaphorePermit>);

impl AnswerRoom {
    /// Gives back what an answer of so many bytes does not need.
    fn shrink_to(&mut self, bytes: usize) {
        if let Some(permit) = &mut self.0 {
            drop(permit.split(permit.num_permits().saturating_sub(bytes.div_ceil(STEP))));
        }
    }
}

impl AnswerMemory {
    /// `most`: bytes of one answer; `all`: of all together.
    pub(crate) fn new(most: usize, all: usize) -> AnswerMemory {
        AnswerMemory { most, free: Arc::new(Semaphore::new(all.max(most) / STEP)) }
    }

    /// Room for an answer of about so many bytes that is still to be made; it is waited for.
    pub(crate) async fn claim(&self, bytes: usize) -> Reply<AnswerRoom> {
        if bytes > self.most {
            let why = format!(
                "the answer would have about {} MB, at most {} are given; ask for fewer images at a time, or explain less",
                bytes.div_ceil(1_000_000),
                self.most / 1_000_000
            );
            return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, why));
        }
        if bytes <= SMALL {
            return Ok(AnswerRoom(None));
        }
        let claimed = self.free.clone().acquire_many_owned(steps(bytes));
        match tokio::time::timeout(PATIENCE, claimed).await {
            Ok(Ok(permit)) => Ok(AnswerRoom(Some(permit))),
            _ => Err(busy()),
        }
    }

    /// Room for an answer that is there already. It is not waited for: while it waited, nobody would count it.
    fn claim_at_once(&self, bytes: usize) -> Reply<AnswerRoom> {
        // What is there already is not refused for its size.
        let permit = self.free.clone().try_acquire_many_owned(steps(bytes.min(self.most)));
        permit.map(|permit| AnswerRoom(Some(permit))).map_err(|_| busy())
    }
}

fn steps(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(STEP)).unwrap_or(u32::MAX)
}

/// The items as JSON, with commas between them.
pub(crate) fn joined<T: Serialize>(items: impl IntoIterator<Item = T>) -> Reply<Vec<u8>> {
    let mut text = Vec::new();
    for item in items {
        if !text.is_empty() {
            text.push(b',');
        }
        serde_json::to_writer(&mut text, &item).map_err(|e| Refusal::failure("the answer", e))?;
    }
    text.shrink_to_fit();
    Ok(text)
}

/// An answer of JSON in parts, with the room that was claimed for it.
pub(crate) struct LongAnswer {
    pub parts: Vec<Vec<u8>>,
    pub room: AnswerRoom,
}

/// Marks an answer whose memory is counted.
#[derive(Clone, Copy)]
struct Counted;

impl IntoResponse for LongAnswer {
    fn into_response(self) -> Response {
        let mut response = Body::new(Taken::new(self.parts, self.room)).into_response();
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response.extensions_mut().insert(Counted);
        response
    }
}

/// Counts the bytes of every other answer until they are taken.
pub(crate) async fn layer(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    let bytes = response.body().size_hint().exact().unwrap_or(0) as usize;
    if bytes <= SMALL || response.extensions().get::<Counted>().is_some() {
        return response;
    }
    let room = match app.answers.claim_at_once(bytes) {
        Ok(room) => room,
        Err(refusal) => return refusal.into_response(),
    };
    let (head, body) = response.into_parts();
    match axum::body::to_bytes(body, bytes).await {
        Ok(whole) => Response::from_parts(head, Body::new(Taken::new([whole], room))),
        Err(error) => Refusal::failure("the answer", error).into_response(),
    }
}

/// An answer that its client takes piece by piece, with its room.
struct Taken {
    parts: VecDeque<Bytes>,
    left: usize,
    room: AnswerRoom,
}

impl Taken {
    fn new<P: Into<Bytes>>(parts: impl IntoIterator<Item = P>, mut room: AnswerRoom) -> Taken {
        let parts: VecDeque<Bytes> =
            parts.into_iter().map(Into::into).filter(|part| !part.is_empty()).collect();
        let left = parts.iter().map(Bytes::len).sum();
        room.shrink_to(left);
        Taken { parts, left, room }
    }
}

impl hyper::body::Body for Taken {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(mut part) = self.parts.pop_front() else { return Poll::Ready(None) };
        let piece = part.split_to(part.len().min(PIECE));
        self.left -= piece.len();
        if part.is_empty() {
            // The memory of a part is free when the whole of it is taken.
            let left = self.left;
            self.room.shrink_to(left);
        } else {
            self.parts.push_front(part);
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn large_answers_share_the_room_and_small_ones_need_none() {
        let answers = AnswerMemory::new(1 << 20, 2 << 20);
        assert_eq!(answers.claim((1 << 20) + 1).await.unwrap_err().status, StatusCode::PAYLOAD_TOO_LARGE);
        let two = (answers.claim(1 << 20).await.unwrap(), answers.claim(1 << 20).await.unwrap());
        assert!(two.0.0.is_some() && two.1.0.is_some());
        assert!(answers.claim(SMALL).await.unwrap().0.is_none(), "small ones do not wait");
        assert_eq!(answers.claim(SMALL + 1).await.unwrap_err().status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(answers.claim_at_once(SMALL + 1).is_err(), "nor is there room for one that is there already");
        drop(two);
        assert!(answers.claim(1 << 20).await.unwrap().0.is_some());
    }

    /// The HTTP library asks for pieces as long as its own buffer has room; a client that does not read makes it stop asking.
    #[tokio::test]
    async fn room_is_kept_until_the_last_piece_is_asked_for() {
        let answers = AnswerMemory::new(1 << 20, 1 << 20);
        let free = || answers.free.available_permits();
        let all = free();
        let parts = [vec![b'a'; 100_000], vec![b'b'; 200_000]];
        let mut body = Taken::new(parts.clone(), answers.claim(1 << 20).await.unwrap());
        assert_eq!((all - free(), body.size_hint().exact()), (300_000usize.div_ceil(STEP), Some(300_000)));
        let mut got = Vec::new();
        while let Poll::Ready(Some(Ok(frame))) =
            Pin::new(&mut body).poll_frame(&mut Context::from_waker(std::task::Waker::noop()))
        {
            let piece = frame.into_data().unwrap();
            assert!(piece.len() <= PIECE);
            got.extend_from_slice(&piece);
            let held = 300_000 - if got.len() < 100_000 { 0 } else { 100_000 };
            assert!(
                body.is_end_stream()
                    || all - free() >= (held - got.len().saturating_sub(100_000)).div_ceil(STEP)
            );
        }
        assert_eq!(got, parts.concat());
        drop(body);
        assert_eq!(free(), all);
    }

    /// The answer is larger than what the system keeps of it for the client.
    #[tokio::test(flavor = "multi_thread")]
    async fn the_room_of_a_client_that_does_not_read_stays_taken() {
        use std::io::{Read, Write};
        const SIZE: usize = 48 << 20;
        let answers = Arc::new(AnswerMemory::new(SIZE, SIZE));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let of = answers.clone();
        let service = hyper::service::service_fn(move |_| {
            let of = of.clone();
            async move {
                let room = of.claim(SIZE).await.unwrap();
                Ok::<_, Infallible>(LongAnswer { parts: vec![vec![b'a'; SIZE]], room }.into_response())
            }
        });
        let served = hyper::server::conn::http1::Builder::new()
            .serve_connection(hyper_util::rt::TokioIo::new(stream), service);
        let served = tokio::spawn(served);
        client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let head = tokio::task::spawn_blocking(move || client.read(&mut [0; 12]).map(|_| client));
        let mut client = head.await.unwrap().unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(answers.free.available_permits(), 0, "what nobody has read is counted");
        let read = tokio::task::spawn_blocking(move || std::io::copy(&mut client, &mut std::io::sink()));
        assert!(read.await.unwrap().unwrap() as usize >= SIZE);
        served.await.unwrap().unwrap();
        assert_eq!(answers.free.available_permits(), SIZE / STEP);
    }
}
