//! Threads of the OS for functions that block.
//!
//! They are made when a job comes and none is idle, take jobs in the order these came,
//! and end when they have been idle for long enough. None of them plays a core until
//! it asks for one, as any thread may (`threads`).

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError},
    thread,
    time::Duration,
};

type Job = Box<dyn FnOnce() + Send>;

/// Threads for functions that block. There are as many as have something to do, and some that are idle.
pub struct Threads {
    most: usize,
    /// Made for the first job.
    shared: OnceLock<Arc<Shared>>,
}

struct Shared {
    /// There are never more.
    most: usize,
    state: Mutex<State>,
    /// There is a job for one that is idle, or all are to end.
    wake: Condvar,
}

struct State {
    /// Jobs that no thread has taken yet.
    jobs: VecDeque<Job>,
    /// Threads that wait for one.
    idle: usize,
    /// All threads.
    count: usize,
    /// No job comes any more.
    is_over: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Threads {
    /// None yet, and never more than `most`.
    pub fn new(most: usize) -> Self {
        Self {
            most,
            shared: OnceLock::new(),
        }
    }

    fn shared(&self) -> &Arc<Shared> {
        self.shared.get_or_init(|| {
            Arc::new(Shared {
                most: self.most,
                state: Mutex::new(State {
                    jobs: VecDeque::new(),
                    idle: 0,
                    count: 0,
                    is_over: false,
                }),
                wake: Condvar::new(),
            })
        })
    }

    /// Has a thread call `call(job)`: one that is idle, or a new one with this much room for its stack, which
    /// stays so long when it is idle. If there are as many as may be, or the OS has no more, one that is busy comes
    /// to it later. Err: nor is there such a one.
    pub fn run<J: Send + 'static>(
        &self,
        job: J,
        call: fn(J),
        stack: usize,
        idle: Duration,
    ) -> Result<(), J> {
        let pool = self.shared();
        let mut state = pool.lock();
        // Those that were woken and have not come yet count as idle, and so do their jobs.
        if state.jobs.len() >= state.idle && state.count < pool.most {
            let shared = pool.clone();
            let thread = thread::Builder::new().name("blocking".into());
            match thread.stack_size(stack).spawn(move || work(&shared, idle)) {
                Ok(_) => state.count += 1,
                Err(_) if state.count > 0 => {}
                Err(_) => return Err(job),
            }
        }
        state.jobs.push_back(Box::new(move || call(job)));
        drop(state);
        pool.wake.notify_one();
        Ok(())
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.shared.get().map_or(0, |shared| shared.lock().count)
    }

    /// They end as soon as they have nothing to do. Nobody waits for that.
    pub fn end(&self) {
        if let Some(shared) = self.shared.get() {
            shared.lock().is_over = true;
            shared.wake.notify_all();
        }
    }
}

/// What each of them does.
fn work(shared: &Shared, idle: Duration) {
    let mut state = shared.lock();
    loop {
        if let Some(job) = state.jobs.pop_front() {
            drop(state);
            // It has nobody to tell of a panic. Who gave it catches those of the function itself.
            let _ = crate::unwind::catch(job);
            state = shared.lock();
            continue;
        }
        if state.is_over {
            break;
        }
        state.idle += 1;
        let is_idle = |state: &mut State| state.jobs.is_empty() && !state.is_over;
        let (woken, timed_out) = shared
            .wake
            .wait_timeout_while(state, idle, is_idle)
            .unwrap_or_else(PoisonError::into_inner);
        state = woken;
        state.idle -= 1;
        if timed_out.timed_out() {
            break;
        }
    }
    state.count -= 1;
}
