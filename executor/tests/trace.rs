//! The rings of events, on the host.
#![cfg(feature = "trace")]

use executor::{
    Runtime,
    task::{Builder, spawn, yield_now},
    trace::{self, Kind},
};

/// One test, as there is one set of rings in a process.
#[test]
fn rings_tell_who_ran_woke_and_spawned_whom_and_keep_the_latest() {
    trace::start(4096);
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let (parent, child) = runtime.block_on(async {
        let handle = Builder::new().core(1).spawn(async {
            let child = spawn(async { yield_now().await });
            let id = child.id();
            child.await.unwrap();
            id
        });
        let parent = handle.id();
        (parent, handle.await.unwrap())
    });
    drop(runtime);
    trace::stop();
    let all: Vec<_> = (0..hal::cores::MAX_CORES)
        .flat_map(|core| {
            let (events, lost) = trace::events(core);
            assert_eq!(lost, 0);
            events
        })
        .collect();
    let of = |kind, task| {
        all.iter()
            .filter(move |event| event.kind == kind && event.task == Some(task))
    };
    assert!(of(Kind::Spawn, child).any(|event| event.by == Some(parent)));
    assert_eq!(of(Kind::PollBegin, child).count(), 2);
    assert_eq!(of(Kind::PollEnd, child).count(), 2);
    // It waited, unless another core had run the child by then.
    let has_waited = of(Kind::PollBegin, parent).count() > 1;
    assert!(
        !has_waited
            || of(Kind::Wake, parent).any(|event| event.by.is_none() || event.by == Some(child)),
        "the child's end wakes its parent"
    );
    for window in of(Kind::PollBegin, child).collect::<Vec<_>>().windows(2) {
        assert!(window[0].time <= window[1].time);
    }

    // Far more events than fit: the latest are kept, and how many are missing is known.
    trace::start(4096);
    let runtime = Runtime::builder().workers(1).build().unwrap();
    runtime.block_on(async {
        for _ in 0..10_000 {
            yield_now().await;
        }
    });
    drop(runtime);
    trace::stop();
    let busiest = (0..hal::cores::MAX_CORES)
        .map(trace::events)
        .max_by_key(|(events, _)| events.len())
        .unwrap();
    let (events, lost) = busiest;
    assert_eq!(events.len(), 4096);
    assert!(lost >= 2 * 10_000 - 4096);
    assert!(
        events
            .windows(2)
            .all(|pair| pair[0].number + 1 == pair[1].number)
    );
    assert!(events.windows(2).all(|pair| pair[0].time <= pair[1].time));
}
