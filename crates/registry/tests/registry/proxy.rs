//! A way to the registry that breaks: it lets a number of bytes through, and then no more.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// What happens when enough bytes have gone towards the registry.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The connections are cut, and new ones too.
    Cut,
    /// Nothing moves any more.
    Stall,
}

pub(crate) struct Proxy {
    address: SocketAddr,
    way: Arc<Way>,
}

struct Way {
    registry: String,
    left: AtomicUsize,
    ending: Ending,
    ended: AtomicBool,
}

impl Proxy {
    pub(crate) fn to(registry: &str, bytes: usize, ending: Ending) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let way =
            Way { registry: registry.to_owned(), left: AtomicUsize::new(bytes), ending, ended: AtomicBool::new(false) };
        let proxy = Proxy { address, way: Arc::new(way) };
        let way = Arc::clone(&proxy.way);
        thread::spawn(move || {
            for client in listener.incoming() {
                let way = Arc::clone(&way);
                thread::spawn(move || way.serve(&client.unwrap()));
            }
        });
        proxy
    }

    /// A name in the registry, by this way.
    pub(crate) fn name(&self, rest: &str) -> String {
        format!("registry://{}/{rest}", self.address)
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.way.ended.load(Ordering::SeqCst)
    }

    pub(crate) fn wait_for_the_end(&self) {
        while !self.has_ended() {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Way {
    fn serve(&self, mut client: &TcpStream) {
        let mut registry = TcpStream::connect(&self.registry).unwrap();
        let (mut answers, mut back) = (registry.try_clone().unwrap(), client.try_clone().unwrap());
        thread::spawn(move || {
            let _ = std::io::copy(&mut answers, &mut back);
            let _ = back.shutdown(Shutdown::Both);
        });
        let mut buffer = [0; 1024];
        while let Ok(read @ 1..) = client.read(&mut buffer) {
            let enough =
                self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(read)).is_err();
            if enough {
                self.ended.store(true, Ordering::SeqCst);
                if self.ending == Ending::Stall {
                    // Until the client goes: it sends no more than the sockets hold.
                    let _ = std::io::copy(&mut client, &mut std::io::sink());
                }
                break;
            }
            if registry.write_all(&buffer[..read]).is_err() {
                break;
            }
        }
        let _ = registry.shutdown(Shutdown::Both);
        let _ = client.shutdown(Shutdown::Both);
    }
}
