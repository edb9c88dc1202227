//! The servers of the image: each listens at one port, until it is stopped.

use super::{net, pages::Pages};
use alloc::{
    format,
    string::{String, ToString},
    sync::Arc,
};
use core::sync::atomic::Ordering::Relaxed;
use executor::{TaskHandle, sync::Mutex, task::Builder, time::Duration};
use net::{NetError, Options, TcpListener, echo, http};

/// Connections that are echoed at once.
const MOST_ECHOES: usize = 2048;

/// A server that can be begun and ended.
pub struct Server {
    /// What it is called.
    pub name: &'static str,
    /// The port at which one expects it.
    pub usual: u16,
    kind: Kind,
    running: Mutex<Option<Running>>,
}

enum Kind {
    Echo,
    Http,
}

struct Running {
    port: u16,
    task: TaskHandle<()>,
    echoed: Option<Arc<echo::Echoed>>,
}

/// Sends back what it gets.
pub static ECHO: Server = Server {
    name: "echo",
    usual: 7,
    kind: Kind::Echo,
    running: Mutex::new(None),
};

/// Shows what the scheduler does.
pub static HTTP: Server = Server {
    name: "http",
    usual: 80,
    kind: Kind::Http,
    running: Mutex::new(None),
};

impl Server {
    /// Listens at a port, and no more at the one before.
    pub async fn start(&'static self, port: u16) -> Result<(), NetError> {
        self.stop().await;
        let mut running = self.running.lock().await;
        let options = Options {
            // Who is gone without a word is found out.
            keep_alive: Some(Duration::from_secs(30)),
            receive: 8 * 1024,
            send: 16 * 1024,
            ..Options::default()
        };
        let listener = TcpListener::bind_with(net(), port, options).await?;
        let builder = Builder::new().name(format!("{} server", self.name));
        let (task, echoed) = match self.kind {
            Kind::Echo => {
                let echoed = Arc::new(echo::Echoed::default());
                let counts = echoed.clone();
                let task = builder.spawn(async move {
                    // It ends when it is cancelled, and not before.
                    let _ = echo::serve(&listener, &counts, MOST_ECHOES).await;
                });
                (task, Some(echoed))
            }
            Kind::Http => {
                let pages = Arc::new(Pages);
                let task = builder.spawn(async move {
                    let _ = http::serve(&listener, &pages).await;
                });
                (task, None)
            }
        };
        *running = Some(Running { port, task, echoed });
        Ok(())
    }

    /// Accepts no more connections; those that are open go on. False: it did not run.
    pub async fn stop(&self) -> bool {
        let Some(running) = self.running.lock().await.take() else {
            return false;
        };
        running.task.cancel();
        // The port is free when it has ended.
        let _ = running.task.await;
        true
    }

    /// A few words on how it is.
    pub async fn status(&self) -> String {
        match &*self.running.lock().await {
            None => "stopped".to_string(),
            Some(Running { port, echoed, .. }) => match echoed {
                None => format!("at port {port}"),
                Some(echoed) => format!(
                    "at port {port}: {} connections open, {} in all, {} bytes sent back",
                    echoed.open.load(Relaxed),
                    echoed.connections.load(Relaxed),
                    echoed.bytes.load(Relaxed)
                ),
            },
        }
    }
}
