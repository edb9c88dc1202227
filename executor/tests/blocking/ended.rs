//! The end of a runtime, and what becomes of its blocking functions.

use super::*;

/// Two that are held, which is all the turns there are; and others that wait for one and would return true.
fn some_and_more(runtime: &Runtime) -> (Vec<mpsc::Sender<()>>, Vec<TaskHandle<bool>>) {
    let let_go = (0..2).map(|_| {
        let (function, has_begun, lets_go) = held();
        runtime.spawn_blocking(function);
        has_begun.recv().unwrap();
        lets_go
    });
    let let_go = let_go.collect();
    let more = (0..10).map(|_| runtime.spawn_blocking(|| true));
    (let_go, more.collect())
}

#[test]
fn a_shutdown_waits_for_all_of_them() {
    let runtime = builder(2).blocking_threads(2).build().unwrap();
    let (lets_go, more) = some_and_more(&runtime);
    let frees = std::thread::spawn(move || drop(lets_go));
    runtime.shutdown();
    frees.join().unwrap();
    for mut waiting in more {
        assert!(waiting.try_take().unwrap().unwrap());
    }
}

#[test]
fn a_shutdown_now_waits_for_those_that_have_begun_and_cancels_the_others() {
    for way in [Runtime::shutdown_now, drop] {
        let runtime = builder(2).blocking_threads(2).build().unwrap();
        let (lets_go, more) = some_and_more(&runtime);
        let is_over = Arc::new(AtomicBool::new(false));
        let over = is_over.clone();
        let ends = std::thread::spawn(move || {
            way(runtime);
            over.store(true, SeqCst);
        });
        for mut waiting in more {
            while !waiting.is_finished() {
                std::thread::yield_now();
            }
            assert!(waiting.try_take().unwrap().unwrap_err().is_cancelled());
        }
        // Those that have begun may still use the runtime, so it is there.
        assert!(!is_over.load(SeqCst));
        drop(lets_go);
        ends.join().unwrap();
    }
}

#[test]
fn what_one_spawns_while_the_runtime_ends_is_cancelled() {
    let runtime = runtime(2);
    let (has_begun, begins) = mpsc::channel();
    let (tell, told) = mpsc::channel();
    runtime.spawn_blocking(move || {
        has_begun.send(()).unwrap();
        while !task::is_cancelled() {
            std::thread::yield_now();
        }
        // The phase has been entered before anybody was cancelled.
        let task = wait(spawn(std::future::pending::<()>()));
        let function = wait(spawn_blocking(|| ()));
        tell.send((task, function)).unwrap();
    });
    begins.recv().unwrap();
    runtime.shutdown_now();
    let (task, function) = told.recv().unwrap();
    assert!(task.unwrap_err().is_cancelled());
    assert!(function.unwrap_err().is_cancelled());
}

#[test]
fn a_runtime_that_is_dropped_by_its_own_blocking_function_says_so() {
    let runtime = Arc::new(runtime(2));
    let last = runtime.clone();
    let (lets_go, let_go) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    let function = runtime.spawn_blocking(move || {
        let _ = let_go.recv();
        let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(last)));
        let message = dropped
            .unwrap_err()
            .downcast_ref::<&str>()
            .map(|text| text.to_string());
        tell.send(message).unwrap();
    });
    function.detach();
    drop(runtime);
    drop(lets_go);
    let message = told.recv().unwrap().expect("a text");
    assert!(
        message.contains("dropped or shut down within a task"),
        "{message}"
    );
}

#[test]
fn a_runtime_ends_within_the_blocking_function_of_another() {
    runtime(1).block_on(async {
        let sum = spawn_blocking(|| {
            let other = runtime(1);
            let sum = other.block_on(async {
                let one = spawn(async { 1 });
                one.await.unwrap() + spawn_blocking(|| 2).await.unwrap()
            });
            other.shutdown();
            sum
        });
        assert_eq!(sum.await.unwrap(), 3);
    });
}
