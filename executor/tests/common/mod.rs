//! What the tests of `sync` share: polling by hand, and a runtime.
#![allow(dead_code, reason = "not every test needs all of it")]

use executor::Runtime;
use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, Once,
        atomic::{AtomicUsize, Ordering::*},
    },
    task::{Context, Poll, Wake, Waker},
};

pub fn runtime(cores: usize) -> Runtime {
    Runtime::builder().workers(cores).build().unwrap()
}

/// A waker that counts.
pub struct Flag(AtomicUsize);

impl Flag {
    pub fn new() -> Arc<Self> {
        Arc::new(Self(AtomicUsize::new(0)))
    }

    /// Whether it was woken.
    pub fn is_set(&self) -> bool {
        self.count() != 0
    }

    /// How often it was woken.
    pub fn count(&self) -> usize {
        self.0.load(SeqCst)
    }
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// Polls once, as a task that is woken through `flag`.
pub fn poll<F: Future + ?Sized>(future: Pin<&mut F>, flag: &Arc<Flag>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(&Waker::from(flag.clone())))
}

/// What was logged by tests that called [`keep_log`].
static LOG: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Logger;

impl log::Log for Logger {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        LOG.lock().unwrap().push(record.args().to_string());
    }

    fn flush(&self) {}
}

/// Keeps what is logged from now on, for [`logged`].
pub fn keep_log() {
    static SET: Once = Once::new();
    SET.call_once(|| {
        log::set_logger(&Logger).unwrap();
        log::set_max_level(log::LevelFilter::Warn);
    });
}

/// The lines that were logged with these words in them.
pub fn logged(words: &str) -> Vec<String> {
    let log = LOG.lock().unwrap();
    let found = log.iter().filter(|line| line.contains(words));
    found.cloned().collect()
}
