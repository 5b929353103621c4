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
}

impl Proxy {
    pub(crate) async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let wire = Arc::new(watch::channel(Wire::Open).0);
        let proxy = Proxy { port: listener.local_addr().unwrap().port(), wire: Arc::clone(&wire) };
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(connect(client, port, wire.subscribe()));
            }
        });
        proxy
    }

    pub(crate) fn set(&self, wire: Wire) {
        self.wire.send_replace(wire);
    }
}

async fn connect(client: TcpStream, port: u16, mut wire: watch::Receiver<Wire>) {
    if *wire.borrow() == Wire::Cut {
        return;
    }
    let server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let ((client_read, client_write), (server_read, server_write)) = (client.into_split(), server.into_split());
    let (there, back) = (wire.clone(), wire.clone());
    tokio::select! {
        () = copy(client_read, server_write, there) => {}
        () = copy(server_read, client_write, back) => {}
        _ = wire.wait_for(|wire| *wire == Wire::Cut) => {}
    }
}

async fn copy(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    mut wire: watch::Receiver<Wire>,
) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        if wire.wait_for(|wire| *wire != Wire::Held).await.is_err() || to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}
