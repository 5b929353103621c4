//! The policy as an HTTPS webhook, for development and tests. Production is Kubewarden's policy-server.
//!
//! [`Policies`] and a [`live::Cluster`](crate::live::Cluster) make a [`Webhook`]; a [`Listener`] and [`Tls`] let the API
//! server reach it.

mod http;
mod listener;
mod policies;
mod review;
mod tls;
mod webhook;

pub use self::listener::{ListenError, Listener};
pub use self::policies::{Mode, Policies, Registration};
pub use self::tls::{Tls, TlsError};
pub use self::webhook::{Webhook, WebhookError};
