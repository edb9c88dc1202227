//! The whole executor: random trees of tasks that spawn, yield, sleep, join,
//! cancel and use groups, under random runtimes. Every task that nobody cancels
//! ends with its right output, and of no task is anything left.
#![cfg(not(loom))]

use executor::{
    Priority, Runtime,
    runtime::Builder,
    scheduler::policy::Fifo,
    stats,
    task::{self, ChildError, TaskGroup, TaskHandle, on_exit, spawn, yield_now},
    time::{Duration, sleep},
};
use proptest::{collection::vec, prelude::*};
use std::{
    alloc::{GlobalAlloc, Layout, System},
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicIsize, AtomicU64, Ordering::*},
    },
};

/// Counts the bytes that are allocated.
struct Counting;

static BYTES: AtomicIsize = AtomicIsize::new(0);

// SAFETY: the system's allocator does it all.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size() as isize, Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size() as isize, Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What a task does: its steps, and then it returns its number and all that it learned.
#[derive(Clone, Debug)]
struct Node {
    number: u64,
    priority: Priority,
    steps: Vec<Step>,
}

#[derive(Clone, Debug)]
enum Step {
    Yield,
    Sleep(u8),
    /// Spawns a task and awaits it at once.
    Join(Node),
    /// Spawns a task and awaits it after all steps.
    JoinLater(Node),
    /// Spawns a task and lets go of it.
    Detach(Node),
    /// Spawns a task, yields so often, and cancels it.
    Cancel(Node, u8),
    /// A group of these.
    Group(Vec<Node>),
    /// A group of these, and of one that fails after so many yields.
    FailingGroup(Vec<Node>, u8),
    /// A group of these that is dropped after so many yields.
    DroppedGroup(Vec<Node>, u8),
    /// Registers a finalizer, that yields so often.
    OnExit(u8),
}

impl Node {
    /// What it returns if nobody cancels it.
    fn output(&self) -> u64 {
        let learned = |step: &Step| match step {
            Step::Join(child) | Step::JoinLater(child) => child.output(),
            Step::Group(children) => children.iter().map(Node::output).sum(),
            _ => 0,
        };
        self.steps.iter().map(learned).sum::<u64>() + self.number
    }
}

fn steps() -> impl Strategy<Value = Node> {
    let leaf = prop_oneof![
        3 => Just(Step::Yield),
        2 => (0..50_u8).prop_map(Step::Sleep),
        1 => (0..4_u8).prop_map(Step::OnExit),
    ];
    let priority = || prop::sample::select(Priority::ALL.to_vec());
    let node = move |step: BoxedStrategy<Step>| {
        (0..1000_u64, priority(), vec(step, 0..7)).prop_map(|(number, priority, steps)| Node {
            number,
            priority,
            steps,
        })
    };
    let step = leaf.boxed().prop_recursive(5, 200, 6, move |inner| {
        let node = || node(inner.clone());
        prop_oneof![
            2 => inner.clone(),
            2 => node().prop_map(Step::Join),
            2 => node().prop_map(Step::JoinLater),
            1 => node().prop_map(Step::Detach),
            1 => (node(), 0..6_u8).prop_map(|(node, turns)| Step::Cancel(node, turns)),
            1 => vec(node(), 0..4).prop_map(Step::Group),
            1 => (vec(node(), 0..4), 0..6_u8)
                .prop_map(|(nodes, turns)| Step::FailingGroup(nodes, turns)),
            1 => (vec(node(), 0..4), 0..6_u8)
                .prop_map(|(nodes, turns)| Step::DroppedGroup(nodes, turns)),
        ]
    });
    (0..1000_u64, vec(step, 1..16)).prop_map(|(number, steps)| Node {
        number,
        priority: Priority::Normal,
        steps,
    })
}

/// What all tasks of a tree share.
#[derive(Clone)]
struct World {
    /// One for each task, finalizer and output.
    token: Arc<()>,
    /// How many finalizers were registered, and have ended.
    registered: Arc<AtomicU64>,
    finalized: Arc<AtomicU64>,
    unit: Duration,
}

type Running = Pin<Box<dyn Future<Output = Result<u64, &'static str>> + Send>>;

async fn turns(count: u8) {
    for _ in 0..count {
        yield_now().await;
    }
}

fn start(node: Node, world: &World) -> TaskHandle<Result<u64, &'static str>> {
    let builder = task::Builder::new().priority(node.priority);
    builder.spawn(run(node, world.clone()))
}

fn group(children: Vec<Node>, world: &World) -> TaskGroup<u64, &'static str> {
    let group = TaskGroup::new();
    for child in children {
        let builder = task::Builder::new().priority(child.priority);
        group.spawn_with(builder, run(child, world.clone()));
    }
    group
}

fn run(node: Node, world: World) -> Running {
    Box::pin(async move {
        let mut sum = node.number;
        let mut later = Vec::new();
        for step in node.steps {
            match step {
                Step::Yield => yield_now().await,
                Step::Sleep(units) => sleep(world.unit * u32::from(units)).await,
                Step::Join(child) => {
                    let expected = child.output();
                    let output = start(child, &world).await.unwrap().unwrap();
                    assert_eq!(output, expected);
                    sum += output;
                }
                Step::JoinLater(child) => later.push((child.output(), start(child, &world))),
                Step::Detach(child) => start(child, &world).detach(),
                Step::Cancel(child, count) => {
                    let expected = child.output();
                    let handle = start(child, &world);
                    turns(count).await;
                    let was_running = handle.cancel();
                    match handle.await {
                        Ok(output) => assert_eq!(output, Ok(expected)),
                        Err(error) => assert!(was_running && error.is_cancelled()),
                    }
                }
                Step::Group(children) => {
                    let expected: Vec<_> = children.iter().map(Node::output).collect();
                    let outputs = group(children, &world).join().await.unwrap();
                    assert_eq!(outputs, expected);
                    sum += outputs.iter().sum::<u64>();
                }
                Step::FailingGroup(children, count) => {
                    let group = group(children, &world);
                    group.spawn(async move {
                        turns(count).await;
                        Err("on purpose")
                    });
                    let error = group.join().await.unwrap_err();
                    assert!(matches!(error, ChildError::Failed("on purpose")));
                }
                Step::DroppedGroup(children, count) => {
                    let _dropped = group(children, &world);
                    turns(count).await;
                }
                Step::OnExit(count) => {
                    let world = world.clone();
                    world.registered.fetch_add(1, Relaxed);
                    on_exit(async move {
                        turns(count).await;
                        world.finalized.fetch_add(1, Relaxed);
                    });
                }
            }
        }
        for (expected, handle) in later {
            let output = handle.await.unwrap().unwrap();
            assert_eq!(output, expected);
            sum += output;
        }
        Ok(sum)
    })
}

/// Builds a runtime, runs the tree on it, and looks whether anything is left.
fn check(builder: Builder, root: &Node, unit: Duration, drains: bool) {
    let runtime = builder.build().unwrap();
    let world = World {
        token: Arc::new(()),
        registered: Arc::default(),
        finalized: Arc::default(),
        unit,
    };
    let expected = root.output();
    let (inside, root) = (world.clone(), root.clone());
    runtime.block_on(async move {
        let handle = spawn(run(root, inside));
        assert_eq!(handle.await.unwrap(), Ok(expected));
        // The detached ones, and those of dropped groups. This one lives.
        while drains && stats::stats().live > 1 {
            sleep(unit).await;
        }
    });
    if drains {
        // The core that ended it counts it a moment later.
        while runtime.stats().live != 0 {
            std::thread::yield_now();
        }
        assert_eq!(Arc::strong_count(&world.token), 1);
        runtime.shutdown();
    } else {
        runtime.shutdown_now();
    }
    assert_eq!(Arc::strong_count(&world.token), 1);
    let registered = world.registered.load(Relaxed);
    assert_eq!(world.finalized.load(Relaxed), registered);
}

/// As `check`, and no byte is left.
fn check_memory(make: impl Fn() -> Builder, root: &Node, unit: Duration, drains: bool) {
    // Threads are started and ended by the host in their own time, and keep something as long as they
    // live: so what is left must be nothing once in a few tries. A leak is there each time.
    let mut left = 0;
    for _ in 0..5 {
        let before = BYTES.load(Relaxed);
        check(make(), root, unit, drains);
        left = BYTES.load(Relaxed) - before;
        if left <= 0 {
            return;
        }
    }
    panic!("{left} bytes are left each time");
}

#[test]
fn random_trees_of_tasks_end_as_they_should_and_leave_nothing() {
    let config = ProptestConfig {
        cases: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let small = any::<bool>();
    proptest!(config, |(root in steps(), cores in 2..5_usize, small in small, drains in any::<bool>())| {
        // Time costs nothing here, so it may be long.
        let quick = || Runtime::builder().workers(1).virtual_clock();
        check_memory(quick, &root, Duration::from_secs(3600), drains);
        let many = || {
            let builder = Runtime::builder().workers(cores);
            if small { builder.queue(2).steal_batch(1) } else { builder }
        };
        check_memory(many, &root, Duration::from_micros(1), drains);
        let alone = || Runtime::builder().workers(cores).stealing(false).track(true);
        check_memory(alone, &root, Duration::from_micros(1), drains);
        let in_order = || Runtime::builder().workers(cores).policy(|_| Box::new(Fifo::new()));
        check_memory(in_order, &root, Duration::from_micros(1), drains);
    });
}
