//! Publishing and pulling, with a real registry on loopback: `make registry-tests`.

mod bundles;
mod certificates;
mod images;
mod logins;
mod policies;
mod proxy;
mod publishing;
mod server;
mod uploads;
