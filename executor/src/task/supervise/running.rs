//! A supervisor at work: which child is at which stage, and what follows from the end of one.

use super::{GaveUp, Restart, Spec, Strategy, Supervisor};
use crate::{
    task::{ChildError, TaskError, TaskHandle, TaskId, waker},
    time::{Duration, Instant, sleep_until},
};
use alloc::{collections::VecDeque, sync::Arc, task::Wake, vec::Vec};
use core::{
    future::{Future, poll_fn},
    mem,
    pin::pin,
    task::{Context, Poll, Waker},
};
use hal::sync::Lock;

/// Where a child is.
enum Stage<E> {
    /// It is to be started at that moment, or when all that stop have ended.
    Due(Instant),
    Running(TaskHandle<Result<(), E>>),
    /// Cancelled because of another.
    Stopping(TaskHandle<Result<(), E>>),
    Done,
}

struct Child<E> {
    spec: Spec<E>,
    stage: Stage<E>,
    /// Its join waker, of each time it runs.
    end: Arc<ChildEnd>,
}

/// How a child ended.
enum Outcome<E> {
    Well,
    Cancelled,
    Badly(ChildError<E>),
}

pub(super) struct Running<E> {
    strategy: Strategy,
    most: usize,
    within: Duration,
    delay: Duration,
    longest_delay: Duration,
    parent: Option<TaskId>,
    children: Vec<Child<E>>,
    ends: Arc<Ends>,
    /// When there were restarts, as far back as the limit looks.
    recent: VecDeque<Instant>,
    /// When those that stop are to be started.
    restart_at: Instant,
    gave_up: Option<GaveUp<E>>,
}

impl<E> Running<E> {
    pub(super) fn new(supervisor: Supervisor<E>) -> Self {
        let now = Instant::now();
        let ends = Arc::new(Ends {
            state: Lock::new((VecDeque::with_capacity(supervisor.children.len()), None)),
        });
        let child = |(index, spec)| Child {
            spec,
            stage: Stage::Due(now),
            end: Arc::new(ChildEnd {
                ends: ends.clone(),
                index,
            }),
        };
        Self {
            strategy: supervisor.strategy,
            most: supervisor.most,
            within: supervisor.within,
            delay: supervisor.delay,
            longest_delay: supervisor.longest_delay,
            parent: waker::own_header().map(|parent| parent.id()),
            children: supervisor
                .children
                .into_iter()
                .enumerate()
                .map(child)
                .collect(),
            ends,
            recent: VecDeque::new(),
            restart_at: now,
            gave_up: None,
        }
    }

    pub(super) fn ends(&self) -> &Ends {
        &self.ends
    }

    pub(super) fn is_done(&self) -> bool {
        let is_done = |child: &Child<E>| matches!(child.stage, Stage::Done);
        self.children.iter().all(is_done)
    }

    fn is_stopping(&self) -> bool {
        let is_stopping = |child: &Child<E>| matches!(child.stage, Stage::Stopping(_));
        self.children.iter().any(is_stopping)
    }

    /// When the next child is to be started, if nothing else happens.
    pub(super) fn next_start(&self) -> Option<Instant> {
        if self.is_stopping() {
            return None;
        }
        let due = |child: &Child<E>| match child.stage {
            Stage::Due(at) => Some(at),
            _ => None,
        };
        self.children.iter().filter_map(due).min()
    }

    /// Starts, in order, those whose time has come.
    pub(super) fn start_due(&mut self, now: Instant) {
        if self.is_stopping() {
            return;
        }
        for index in 0..self.children.len() {
            let child = &mut self.children[index];
            if !matches!(child.stage, Stage::Due(at) if at <= now) {
                continue;
            }
            match (child.spec.start)(child.spec.builder.clone(), self.parent) {
                Ok(mut handle) => {
                    if handle.tell(Waker::from(child.end.clone())).is_err() {
                        // It has ended already.
                        self.ends.push(index);
                    }
                    child.stage = Stage::Running(handle);
                }
                Err(_) if child.spec.restart == Restart::Never => child.stage = Stage::Done,
                Err(_) => {
                    self.on_failure(index, Some(ChildError::Task(TaskError::NoMemory)));
                    if self.is_stopping() {
                        return;
                    }
                }
            }
        }
    }

    /// A child has ended.
    pub(super) fn on_end(&mut self, index: usize) {
        let child = &mut self.children[index];
        let restart = child.spec.restart;
        let (mut handle, is_stopped) = match mem::replace(&mut child.stage, Stage::Done) {
            Stage::Running(handle) => (handle, false),
            Stage::Stopping(handle) => (handle, true),
            Stage::Due(_) | Stage::Done => unreachable!("it has been started and ends once"),
        };
        let outcome = match handle.try_take().expect("it has ended") {
            Ok(Ok(())) => Outcome::Well,
            Ok(Err(error)) => Outcome::Badly(ChildError::Failed(error)),
            Err(TaskError::Cancelled) => Outcome::Cancelled,
            Err(error) => Outcome::Badly(ChildError::Task(error)),
        };
        if self.gave_up.is_some() || restart == Restart::Never {
            return;
        }
        match outcome {
            Outcome::Well if restart == Restart::OnError => {}
            _ if is_stopped => child.stage = Stage::Due(self.restart_at),
            // By somebody who knows what for.
            Outcome::Cancelled => {}
            Outcome::Well => self.on_failure(index, None),
            Outcome::Badly(cause) => self.on_failure(index, Some(cause)),
        }
    }

    /// A child is to be started again, and with it those that the strategy says.
    fn on_failure(&mut self, index: usize, cause: Option<ChildError<E>>) {
        let now = Instant::now();
        let is_old = |&at: &Instant| now - at > self.within;
        while self.recent.front().is_some_and(is_old) {
            self.recent.pop_front();
        }
        if self.recent.len() >= self.most || self.recent.try_reserve(1).is_err() {
            let child = self.children[index].spec.name();
            self.gave_up = Some(GaveUp { child, cause });
            return self.stop(0, Stage::Done);
        }
        let doublings = self.recent.len().min(31) as u32;
        self.recent.push_back(now);
        let delay = self.delay.saturating_mul(1 << doublings);
        self.restart_at = now.saturating_add(delay.min(self.longest_delay));
        self.children[index].stage = Stage::Due(self.restart_at);
        match self.strategy {
            Strategy::OneForOne => {}
            Strategy::OneForAll => self.stop(0, Stage::Due(self.restart_at)),
            Strategy::RestForOne => self.stop(index, Stage::Due(self.restart_at)),
        }
    }

    /// Cancels the children from there on, the last first; those that wait to be
    /// started go to another stage.
    fn stop(&mut self, from: usize, waiting: Stage<E>) {
        for child in self.children[from..].iter_mut().rev() {
            child.stage = match mem::replace(&mut child.stage, Stage::Done) {
                Stage::Running(handle) => {
                    handle.cancel();
                    Stage::Stopping(handle)
                }
                Stage::Due(_) => match waiting {
                    Stage::Due(at) => Stage::Due(at),
                    _ => Stage::Done,
                },
                other => other,
            };
        }
    }

    /// All is over: how.
    pub(super) fn result(mut self) -> Result<(), GaveUp<E>> {
        self.gave_up.take().map_or(Ok(()), Err)
    }
}

impl<E> Drop for Running<E> {
    fn drop(&mut self) {
        self.stop(0, Stage::Done);
    }
}

/// Children that have ended and were not looked at yet, and whoever waits for
/// that. Each is there once at most, so there is room for all from the beginning.
pub(super) struct Ends {
    state: Lock<(VecDeque<usize>, Option<Waker>)>,
}

impl Ends {
    fn push(&self, index: usize) {
        let waiter = {
            let (ended, waiter) = &mut *self.state.lock();
            ended.push_back(index);
            waiter.take()
        };
        if let Some(waiter) = waiter {
            waiter.wake();
        }
    }

    /// A child that has ended; None: it is later than `until`.
    pub(super) async fn next(&self, until: Option<Instant>) -> Option<usize> {
        let mut sleep = pin!(until.map(sleep_until));
        poll_fn(|context| {
            if let Poll::Ready(index) = self.poll(context) {
                return Poll::Ready(Some(index));
            }
            match sleep.as_mut().as_pin_mut() {
                Some(sleep) => sleep.poll(context).map(|()| None),
                None => Poll::Pending,
            }
        })
        .await
    }

    fn poll(&self, context: &mut Context<'_>) -> Poll<usize> {
        let mut waker = Some(waker::clone_to_wait(context.waker(), &"children"));
        let mut state = self.state.lock();
        let first = state.0.pop_front();
        if first.is_none() {
            mem::swap(&mut state.1, &mut waker);
        }
        // Then the waker that is not needed: it may be anybody's.
        drop(state);
        first.map_or(Poll::Pending, Poll::Ready)
    }
}

/// Join waker of a child.
struct ChildEnd {
    ends: Arc<Ends>,
    index: usize,
}

impl Wake for ChildEnd {
    fn wake(self: Arc<Self>) {
        self.ends.push(self.index);
    }
}
