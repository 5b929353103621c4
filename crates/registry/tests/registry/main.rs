//! Publishing and pulling, with a real registry on loopback: `make registry-tests`.

#![allow(clippy::panic, clippy::unwrap_used)]

mod bundles;
mod certificates;
mod images;
mod logins;
mod policies;
mod proxy;
mod publishing;
mod server;
mod uploads;
