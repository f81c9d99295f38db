//! Memory for answers. One that is large is counted from the moment it begins to grow until its client has taken it: neither many
//! questions with long answers at once nor clients that do not read may fill the memory.

use crate::App;
use crate::error::{Refusal, Reply};
use crate::work::busy;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hyper::body::{Body as _, Bytes, Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Answers up to this size are not counted: their number is bounded by the number of connections.
const SMALL: usize = 64 << 10;
/// Memory is counted in steps of this size.
const STEP: usize = 4 << 10;
/// Longest wait for room.
const PATIENCE: Duration = Duration::from_secs(5);

/// Room for all answers.
pub(crate) struct AnswerMemory {
    most: usize,
    free: Arc<Semaphore>,
}

impl AnswerMemory {
    /// `most`: bytes of one answer; `all`: of all together.
    pub(crate) fn new(most: usize, all: usize) -> AnswerMemory {
        AnswerMemory { most, free: Arc::new(Semaphore::new(all.max(most) / STEP)) }
    }

    /// Room for an answer of about so many bytes, given back when dropped; none is needed for a small one.
    pub(crate) async fn claim(&self, bytes: usize) -> Reply<Option<OwnedSemaphorePermit>> {
        if bytes > self.most {
            let why = format!(
                "the answer would have about {} MB, at most {} are given; ask for fewer images at a time, or explain less",
                bytes.div_ceil(1_000_000),
                self.most / 1_000_000
            );
            return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, why));
        }
        if bytes <= SMALL {
            return Ok(None);
        }
        let steps = u32::try_from(bytes.div_ceil(STEP)).unwrap_or(u32::MAX);
        match tokio::time::timeout(PATIENCE, self.free.clone().acquire_many_owned(steps)).await {
            Ok(Ok(permit)) => Ok(Some(permit)),
            _ => Err(busy()),
        }
    }
}

/// Counts the bytes of every answer until they are taken.
pub(crate) async fn layer(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    let bytes = response.body().size_hint().exact().unwrap_or(0) as usize;
    // What is there already is not refused for its size.
    match app.answers.claim(bytes.min(app.answers.most)).await {
        Ok(None) => response,
        Ok(Some(room)) => response.map(|body| Body::new(Held { body, _room: room })),
        Err(refusal) => refusal.into_response(),
    }
}

/// A body with its room.
struct Held {
    body: Body,
    _room: OwnedSemaphorePermit,
}

impl hyper::body::Body for Held {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
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
        assert!(two.0.is_some() && two.1.is_some());
        assert!(answers.claim(SMALL).await.unwrap().is_none(), "small ones do not wait");
        assert_eq!(answers.claim(SMALL + 1).await.unwrap_err().status, StatusCode::SERVICE_UNAVAILABLE);
        drop(two);
        assert!(answers.claim(1 << 20).await.unwrap().is_some());
    }

    #[tokio::test]
    async fn room_is_given_back_when_the_body_is_dropped() {
        let answers = AnswerMemory::new(1 << 20, 1 << 20);
        let room = answers.claim(1 << 20).await.unwrap().unwrap();
        let body = Body::new(Held { body: Body::from("text"), _room: room });
        assert_eq!((answers.free.available_permits(), body.size_hint().exact()), (0, Some(4)));
        drop(body);
        assert_eq!(answers.free.available_permits(), (1 << 20) / STEP);
    }
}
