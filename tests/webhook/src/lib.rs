//! The policy as an HTTPS webhook with look-ups in a live cluster, for tests. Production is Kubewarden's policy-server.
//!
//! [`Policies`] and a [`Watched`] cluster make a [`Webhook`]; a [`Listener`] and [`Tls`] let the API server reach it.

#![forbid(unsafe_code)]

mod http;
mod listener;
mod policies;
mod review;
mod tls;
mod watch;
mod watched;
mod webhook;

pub use listener::Listener;
pub use policies::{Mode, Policies, Registration};
pub use tls::{Tls, TlsError};
pub use watched::{Cache, Watched};
pub use webhook::{Webhook, WebhookError};
