//! What happens without memory: each allocation of an operation fails in turn. The operation says so, nothing
//! of it stays, and all goes on.
#![cfg(not(loom))]

use executor::{
    BuildError, NoMemory, Runtime, parallel,
    sync::{
        broadcast,
        channel::{TrySendError, try_bounded, try_unbounded},
        oneshot, watch,
    },
    task::{
        self, Builder, ChildError, SpawnError, Strategy, Supervisor, TaskError, TaskGroup,
        TaskHandle, nursery, try_on_exit, try_spawn, try_spawn_local, yield_now,
    },
    thread,
    time::{Duration, Instant, sleep},
};
use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    fmt::Debug,
    future::{Future, pending},
    pin::pin,
    ptr::null_mut,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::*},
    },
};

/// Which allocations of a thread fail.
#[derive(Clone, Copy, PartialEq)]
enum Failing {
    None,
    /// The one after so many more.
    One(usize),
    /// All after so many more.
    All(usize),
    /// All of so many bytes or more.
    Large(usize),
}

thread_local! {
    static FAILING: Cell<Failing> = const { Cell::new(Failing::None) };
    /// How many have failed.
    static FAILED: Cell<usize> = const { Cell::new(0) };
    /// Bytes that it has allocated and not freed.
    static LIVE: Cell<isize> = const { Cell::new(0) };
}

/// The system's, but for that.
struct Heap;

fn fails(layout: Layout) -> bool {
    let fails = FAILING.with(|failing| match failing.get() {
        Failing::None => false,
        Failing::One(0) => {
            failing.set(Failing::None);
            true
        }
        Failing::One(more) => {
            failing.set(Failing::One(more - 1));
            false
        }
        Failing::All(0) => true,
        Failing::All(more) => {
            failing.set(Failing::All(more - 1));
            false
        }
        Failing::Large(bytes) => layout.size() >= bytes,
    });
    FAILED.set(FAILED.get() + usize::from(fails));
    fails
}

// SAFETY: the system's, or null. `realloc` and `alloc_zeroed` are made of these.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if fails(layout) {
            return null_mut();
        }
        LIVE.set(LIVE.get() + layout.size() as isize);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        LIVE.set(LIVE.get() - layout.size() as isize);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static HEAP: Heap = Heap;

/// Does something with these allocations failing. And whether any has.
fn with<R>(failing: Failing, operation: impl FnOnce() -> R) -> (R, bool) {
    FAILED.set(0);
    FAILING.set(failing);
    let result = operation();
    FAILING.set(Failing::None);
    (result, FAILED.get() != 0)
}

/// Does something with its first allocation failing, its second, and so on, and then with all from there on, until
/// none fails any more: how many it needs. Each time it must say so, and keep nothing.
fn sweep<T, E: Debug + PartialEq>(error: E, mut operation: impl FnMut() -> Result<T, E>) -> usize {
    sweep_with(
        error,
        || {
            let before = LIVE.get();
            move || assert_eq!(LIVE.get(), before, "something of what was not made is left")
        },
        &mut operation,
    )
}

/// The same for what may keep memory for the next time, in something that frees it later.
fn sweep_growing<T, E: Debug + PartialEq>(
    error: E,
    mut operation: impl FnMut() -> Result<T, E>,
) -> usize {
    sweep_with(error, || || (), &mut operation)
}

fn sweep_with<T, E: Debug + PartialEq, C: FnOnce()>(
    error: E,
    check: impl Fn() -> C,
    operation: &mut dyn FnMut() -> Result<T, E>,
) -> usize {
    let mut needed = 0;
    for kind in [Failing::One, Failing::All] {
        for count in 0.. {
            let is_as_before = check();
            let (result, has_failed) = with(kind(count), &mut *operation);
            match result {
                Err(told) => {
                    assert!(has_failed, "it failed without cause");
                    assert_eq!(told, error);
                    is_as_before();
                }
                Ok(_) => {
                    assert!(!has_failed, "allocation {count} failed, and nobody says so");
                    needed = needed.max(count);
                    break;
                }
            }
        }
    }
    assert_ne!(needed, 0, "it needs no memory");
    needed
}

/// Sweeps something in a task of a runtime of one core, which is this thread; and looks whether all goes on, and
/// nothing is left when the runtime has ended.
fn sweep_in_a_runtime<F: Future>(main: impl Fn() -> F) {
    // The first of a thread leaves something with it.
    drop(Runtime::builder().workers(1).build().unwrap());
    for track in [false, true] {
        let before = LIVE.get();
        let runtime = Runtime::builder().workers(1).track(track).build().unwrap();
        runtime.block_on(async {
            main().await;
            let after = try_spawn(async {
                yield_now().await;
                sleep(Duration::from_millis(1)).await;
                42
            });
            assert_eq!(after.unwrap().await.unwrap(), 42);
        });
        runtime.shutdown();
        assert_eq!(LIVE.get(), before, "something is left of the runtime");
    }
}

/// May be dropped only where a task may wait.
struct Careful;

impl Drop for Careful {
    fn drop(&mut self) {
        task::wait(async {});
    }
}

/// A future with one.
fn careful() -> impl Future<Output = ()> + Send {
    let careful = Careful;
    async move {
        yield_now().await;
        drop(careful);
    }
}

#[test]
fn spawning_says_that_there_is_no_memory() {
    let no_memory = SpawnError::NoMemory;
    sweep_in_a_runtime(|| async move {
        // The task, and at first its slot in the list.
        assert!(sweep(no_memory, || try_spawn(careful())) >= 2);
        let named = || Builder::new().name("named").try_spawn(careful());
        assert_eq!(sweep(no_memory, named), 2);
        let other = Rc::new(Careful);
        let local = || {
            let other = other.clone();
            try_spawn_local(async move { drop(other) })
        };
        sweep(no_memory, local);
        let pinned = || Builder::new().core(0).try_spawn_local(careful);
        sweep(no_memory, pinned);
    });
}

#[test]
fn spawning_from_outside_says_so_too() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    assert_eq!(
        sweep(SpawnError::NoMemory, || runtime.try_spawn(async {})),
        2
    );
    let on_core_0 = || runtime.try_spawn_with(Builder::new().core(0).name("named"), async {});
    sweep(SpawnError::NoMemory, on_core_0);
    assert_eq!(runtime.block_on(async { 42 }), 42);
}

#[test]
fn a_local_task_that_was_not_made_is_not_waited_for() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    // It is counted where it is to run, which is not where it is made.
    let on_core_0 = || Builder::new().core(0).try_spawn_local(pending::<()>);
    let handles: Vec<TaskHandle<()>> = runtime.block_on(async {
        let (made, has_failed) = with(Failing::All(0), on_core_0);
        assert!(made.is_err() && has_failed);
        sweep(SpawnError::NoMemory, on_core_0);
        Vec::new()
    });
    drop(handles);
    assert_eq!(runtime.block_on(async { 42 }), 42);
}

#[test]
fn threads_say_that_there_is_no_memory() {
    sweep_in_a_runtime(|| async {
        sweep(SpawnError::NoMemory, || thread::Builder::new().spawn(|| 1));
        let large = || {
            let builder = thread::Builder::new().name("large").stack_size(1 << 20);
            builder.spawn(|| 1)
        };
        // The task, its block, and its context.
        assert_eq!(sweep(SpawnError::NoMemory, large), 3);
        let number = AtomicUsize::new(0);
        thread::scope(|scope| {
            let body = || number.fetch_add(1, Relaxed);
            let spawn = || thread::Builder::new().spawn_scoped(scope, body);
            assert!(sweep_growing(SpawnError::NoMemory, spawn) >= 4);
        });
        // One for each way to fail.
        assert_eq!(number.into_inner(), 2);
    });
}

#[test]
fn groups_say_that_there_is_no_memory() {
    sweep_in_a_runtime(|| async {
        assert_eq!(sweep(NoMemory, TaskGroup::<(), ()>::try_new), 1);
        let group = TaskGroup::<(), ()>::new();
        let child = || async {
            careful().await;
            Ok(())
        };
        let mut most = 0;
        for _ in 0..20 {
            // Now and then slots for more of them are needed, too.
            most = most.max(sweep_growing(SpawnError::NoMemory, || {
                group.try_spawn(child())
            }));
            let background = || group.try_spawn_background(Builder::new(), child());
            sweep_growing(SpawnError::NoMemory, background);
        }
        // Slots, what hears of the end, the task and its block.
        assert!(most >= 4);
        let live = group.live();
        assert!(group.used() >= live * 64);
        assert_eq!(group.join().await.unwrap().len(), live / 2);
    });
}

#[test]
fn scopes_say_that_there_is_no_memory() {
    sweep_in_a_runtime(|| async {
        let number = AtomicUsize::new(0);
        let count = || number.fetch_add(1, Relaxed);
        let ended = nursery(|scope| {
            let child = || async { Ok::<_, ()>(count()) };
            let spawn = || scope.try_spawn_with(Builder::new(), child());
            sweep_growing(SpawnError::NoMemory, spawn);
        });
        assert_eq!(ended.unwrap().len(), 2);
        parallel::scope(|scope| {
            let spawn = || {
                scope.try_spawn(|| {
                    count();
                })
            };
            sweep_growing(SpawnError::NoMemory, spawn);
        });
        assert_eq!(number.into_inner(), 4);
    });
}

#[test]
fn channels_say_that_there_is_no_memory() {
    assert_eq!(sweep(NoMemory, || try_bounded::<u64>(10)), 2);
    // A rendezvous.
    assert_eq!(sweep(NoMemory, || try_bounded::<u64>(0)), 3);
    assert_eq!(sweep(NoMemory, try_unbounded::<u64>), 1);
    assert_eq!(sweep(NoMemory, oneshot::try_channel::<u64>), 1);
    assert_eq!(sweep(NoMemory, || broadcast::try_channel::<u64>(10)), 3);
    assert_eq!(sweep(42, || watch::try_channel(42)), 1);
    // Too many for any memory.
    assert!(matches!(try_bounded::<u64>(usize::MAX >> 4), Err(NoMemory)));
}

#[test]
fn more_receivers_of_a_broadcast_need_memory() {
    let (sender, mut first) = broadcast::channel(4);
    let mut receivers = Vec::with_capacity(10);
    for _ in 0..10 {
        sweep(NoMemory, || sender.try_subscribe());
        receivers.push(first.try_resubscribe().unwrap());
    }
    assert_eq!(sender.send(1), Ok(11));
    assert_eq!(first.try_recv(), Ok(1));
    assert!(receivers.iter_mut().all(|other| other.try_recv() == Ok(1)));
}

#[test]
fn a_message_for_which_there_is_no_memory_comes_back() {
    const MESSAGES: usize = 200;
    let (sender, receiver) = try_unbounded().unwrap();
    let message = Arc::new(());
    let mut refused = 0;
    for sent in 0..MESSAGES {
        let before = LIVE.get();
        let (result, has_failed) = with(Failing::All(0), || sender.try_send(message.clone()));
        match result {
            Ok(()) => assert!(!has_failed),
            Err(error) => {
                assert!(has_failed);
                assert_eq!(LIVE.get(), before);
                let TrySendError::NoMemory(again) = error else {
                    panic!("{error}");
                };
                assert!(Arc::ptr_eq(&message, &again));
                // Where nothing is to be refused, it gives way itself.
                let (forced, _) = with(Failing::All(0), || sender.force_send(again));
                sender.try_send(forced.unwrap().unwrap()).unwrap();
                refused += 1;
            }
        }
        assert_eq!(sender.len(), sent + 1);
    }
    assert!(refused > 2, "there are blocks of a few dozens");
    sender.close();
    let error = with(Failing::All(0), || sender.try_send(message.clone())).0;
    assert!(error.unwrap_err().is_closed());
    for _ in 0..MESSAGES {
        receiver.try_recv().unwrap();
    }
    assert!(receiver.try_recv().unwrap_err().is_closed());
    assert_eq!(Arc::strong_count(&message), 1);
}

#[test]
fn finalizers_say_that_there_is_no_memory() {
    sweep_in_a_runtime(|| async {
        let ended = Arc::new(AtomicUsize::new(0));
        let counted = ended.clone();
        let task = try_spawn(async move {
            // None could be registered without memory, and each that could runs.
            let register = || {
                let ended = counted.clone();
                let last = async move {
                    yield_now().await;
                    ended.fetch_add(1, Relaxed);
                };
                try_on_exit(last).map_err(|last| assert_eq!(size_of_val(&last) % 8, 0))
            };
            sweep_growing((), register)
        });
        assert!(task.unwrap().await.unwrap() >= 2);
        assert_eq!(ended.load(Relaxed), 2);
    });
}

#[test]
fn a_finalizer_that_registers_another_needs_no_memory_to_wait() {
    sweep_in_a_runtime(|| async {
        let task = try_spawn(async {
            task::on_exit(async {
                task::on_exit(async {});
                FAILING.set(Failing::All(0));
                yield_now().await;
                FAILING.set(Failing::None);
            });
        });
        task.unwrap().await.unwrap();
    });
}

#[test]
fn who_may_wait_for_what_cannot_become_a_task_does_not_wait_for_ever() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    runtime.block_on(async {
        let ended = task::spawn(async {
            let (sender, receiver) = oneshot::channel();
            let first = || {
                FAILING.set(Failing::One(0));
                task::wait(receiver)
            };
            parallel::join(first, || sender.send(1))
        });
        let Err(TaskError::Panicked(panic)) = ended.await else {
            panic!("it waits for what nobody does");
        };
        assert!(panic.message().contains("in parallel: no memory"));
        // Items do not wait for each other, so these go on.
        let ended = task::spawn(async {
            let number = AtomicUsize::new(0);
            parallel::par_for_each(0..4, |_| {
                FAILING.set(Failing::One(0));
                task::wait(yield_now());
                FAILING.set(Failing::None);
                number.fetch_add(1, Relaxed);
            });
            number.into_inner()
        });
        assert_eq!(ended.await.unwrap(), 4);
    });
}

#[test]
fn a_timer_without_memory_still_ends_in_time() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    runtime.block_on(async {
        let begin = Instant::now();
        FAILING.set(Failing::All(0));
        sleep(Duration::from_millis(5)).await;
        FAILING.set(Failing::None);
        assert!(begin.elapsed() >= Duration::from_millis(5));
        assert_ne!(FAILED.get(), 0, "the first of a core needs memory");
        let before = FAILED.get();
        sleep(Duration::from_millis(5)).await;
        FAILING.set(Failing::All(0));
        sleep(Duration::from_millis(5)).await;
        FAILING.set(Failing::None);
        assert_eq!(FAILED.get(), before, "all others do not");
    });
}

#[test]
fn a_runtime_that_cannot_be_built_leaves_nothing() {
    drop(Runtime::builder().workers(1).build().unwrap());
    let build = || Runtime::builder().workers(1).build();
    // Queues of each priority, and more.
    assert!(sweep(BuildError::NoMemory, build) > 10);
}

#[test]
fn a_supervisor_takes_a_child_without_memory_for_one_that_failed() {
    const LARGE: usize = 100_000;
    async fn child(number: &AtomicUsize) -> Result<(), ()> {
        let large = [1u8; LARGE];
        yield_now().await;
        number.fetch_add(usize::from(large[7]), Relaxed);
        Ok(())
    }
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    sweep_in_a_runtime(|| async {
        for strategy in [Strategy::OneForOne, Strategy::OneForAll] {
            RUNS.store(0, Relaxed);
            let supervisor = || {
                Supervisor::new(strategy)
                    .limit(3, Duration::from_secs(5))
                    .child("small", || async { Ok(()) })
                    .child("large", || child(&RUNS))
            };
            FAILING.set(Failing::Large(LARGE));
            let gave_up = supervisor().run().await;
            FAILING.set(Failing::None);
            let gave_up = gave_up.unwrap_err();
            assert_eq!(gave_up.child, "large");
            assert!(matches!(
                gave_up.cause,
                Some(ChildError::Task(TaskError::NoMemory))
            ));
            assert_eq!(RUNS.load(Relaxed), 0);
            // With memory by the third time, all is well.
            FAILING.set(Failing::Large(LARGE));
            let supervisor = supervisor().delay(Duration::from_millis(5), Duration::from_millis(5));
            let mut run = pin!(supervisor.run());
            for _ in 0..20 {
                let is_pending = std::future::poll_fn(|cx| {
                    std::task::Poll::Ready(run.as_mut().poll(cx).is_pending())
                });
                assert!(is_pending.await);
                yield_now().await;
            }
            FAILING.set(Failing::None);
            run.await.unwrap();
            assert_eq!(RUNS.load(Relaxed), 1);
        }
    });
}
