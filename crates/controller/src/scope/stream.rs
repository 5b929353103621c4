//! An answer that is passed through: frame by frame as it arrives, with a time limit.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};

pub(super) struct Stream {
    pub answer: Incoming,
    /// When it ends at the latest.
    pub end: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// Whether clients expect such an end, as with a watch. Any other answer would look complete although it is not.
    pub ends_well: bool,
}

type Broken = Box<dyn std::error::Error + Send + Sync>;

impl Body for Stream {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.answer).poll_frame(cx) {
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        match self.end.as_mut().poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) if self.ends_well => Poll::Ready(None),
            Poll::Ready(()) => Poll::Ready(Some(Err("the API server's answer takes too long".into()))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.answer.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.answer.size_hint()
    }
}
