//! The API server behind a wire that can be cut or held.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    /// Everything passes.
    Open,
    /// Nothing passes, and nobody is told.
    Held,
    /// Connections break, and new ones too.
    Cut,
}

pub(crate) struct Proxy {
    pub(crate) port: u16,
    wire: Arc<watch::Sender<Wire>>,
    /// How often something had to wait because the wire was held.
    held: Arc<watch::Sender<usize>>,
}

impl Proxy {
    pub(crate) async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let wire = Arc::new(watch::channel(Wire::Open).0);
        let held = Arc::new(watch::channel(0).0);
        let address = listener.local_addr().unwrap();
        let proxy = Proxy { port: address.port(), wire: Arc::clone(&wire), held: Arc::clone(&held) };
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(connect(client, port, wire.subscribe(), Arc::clone(&held)));
            }
        });
        proxy
    }

    /// Until somebody waits because the wire is held.
    pub(crate) async fn until_held(&self) {
        self.held.subscribe().wait_for(|held| *held > 0).await.unwrap();
    }

    pub(crate) fn set(&self, wire: Wire) {
        self.wire.send_replace(wire);
    }
}

async fn connect(client: TcpStream, port: u16, mut wire: watch::Receiver<Wire>, held: Arc<watch::Sender<usize>>) {
    if *wire.borrow() == Wire::Cut {
        return;
    }
    let server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let ((client_read, client_write), (server_read, server_write)) = (client.into_split(), server.into_split());
    let (there, back) = (wire.clone(), wire.clone());
    tokio::select! {
        () = copy(client_read, server_write, there, &held) => {}
        () = copy(server_read, client_write, back, &held) => {}
        _ = wire.wait_for(|wire| *wire == Wire::Cut) => {}
    }
}

async fn copy(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    mut wire: watch::Receiver<Wire>,
    held: &watch::Sender<usize>,
) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        if *wire.borrow() == Wire::Held {
            held.send_modify(|held| *held += 1);
        }
        if wire.wait_for(|wire| *wire != Wire::Held).await.is_err() || to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}
