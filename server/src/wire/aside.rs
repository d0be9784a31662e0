//! Long work on the threads of the sockets: a thread that does it has another one take its place first. Who does it in place
//! of that holds up clients that have nothing to do with it, even where other threads rest: it may be the one that waits for
//! all sockets, and the others are not woken for those.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

/// From so many bytes on what a client sends may take long to read, parse, change or drop.
pub const LONG_BYTES: usize = 4 << 10;

/// Runs work, and lets another thread take this one's place before where it `is_long`.
pub fn aside<T>(is_long: bool, work: impl FnOnce() -> T) -> T {
    let threads = Handle::try_current().map(|handle| handle.runtime_flavor());
    match (is_long, threads) {
        (true, Ok(RuntimeFlavor::MultiThread)) => block_in_place(work),
        _ => work(),
    }
}

/// A future whose every step may take long, and its end too.
pub struct Aside<F>(Option<Pin<Box<F>>>);

impl<F: Future> Aside<F> {
    pub fn new(future: F) -> Self {
        Self(Some(Box::pin(future)))
    }
}

impl<F: Future> Future for Aside<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        aside(true, || {
            let Some(future) = &mut self.0 else {
                return Poll::Pending;
            };
            let done = future.as_mut().poll(context);
            if done.is_ready() {
                self.0 = None;
            }
            done
        })
    }
}

impl<F> Drop for Aside<F> {
    fn drop(&mut self) {
        if let Some(future) = self.0.take() {
            aside(true, || drop(future));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    /// Answers each byte that comes.
    async fn echo(listener: TcpListener) -> std::io::Result<()> {
        let (mut socket, _) = listener.accept().await?;
        loop {
            let byte = socket.read_u8().await?;
            socket.write_u8(byte).await?;
        }
    }

    /// Sockets are served while each thread has long work to begin with, and to drop at its end.
    #[test]
    fn sockets_go_on_beside_long_work() {
        const LONG: Duration = Duration::from_millis(400);
        struct Slow;
        impl Drop for Slow {
            fn drop(&mut self) {
                std::thread::sleep(LONG);
            }
        }
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let threads = builder.worker_threads(2).enable_all().build().unwrap();
        let worst = threads.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            tokio::spawn(echo(listener));
            let ended = Arc::new(AtomicBool::new(false));
            let works = (0..2).map(|_| {
                tokio::spawn(Aside::new(async {
                    let _slow = Slow;
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    std::thread::sleep(LONG);
                }))
            });
            let works: Vec<_> = works.collect();
            let stop = ended.clone();
            // Not on these threads.
            let client = std::thread::spawn(move || {
                let threads = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .unwrap();
                threads.block_on(async {
                    let mut socket = TcpStream::connect(address).await.unwrap();
                    let mut worst = Duration::ZERO;
                    while !stop.load(Ordering::Relaxed) {
                        let begun = Instant::now();
                        socket.write_u8(1).await.unwrap();
                        socket.read_u8().await.unwrap();
                        worst = worst.max(begun.elapsed());
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                    worst
                })
            });
            for work in works {
                work.await.unwrap();
            }
            ended.store(true, Ordering::Relaxed);
            tokio::task::spawn_blocking(|| client.join().unwrap()).await.unwrap()
        });
        assert!(worst < LONG, "{worst:?}");
    }
}
