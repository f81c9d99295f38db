//! The body of a request, watched: once it has come whole, its client waits for us and not we for it.

use super::registry::Connection;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A body that tells its connection when it is at its end, or nobody wants more of it.
pub(super) struct Watched {
    body: Incoming,
    connection: Arc<Connection>,
}

impl Watched {
    pub(super) fn new(body: Incoming, connection: Arc<Connection>) -> Watched {
        connection.at_work(body.is_end_stream());
        Watched { body, connection }
    }
}

impl Body for Watched {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if matches!(frame, Poll::Ready(None)) {
            self.connection.at_work(true);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.connection.at_work(true);
    }
}
