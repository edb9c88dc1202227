//! Pipes of bytes: between threads, with ends that wait, and that go away.

use executor::{
    Runtime, block_on_simple,
    io::pipe::{Closed, pipe},
    join, spawn,
};
use proptest::prelude::*;
use std::{
    collections::VecDeque,
    task::{Context, Poll, Waker},
};

#[test]
fn a_million_bytes_go_through_a_small_pipe_between_two_tasks() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let byte = |at: usize| (at * 31 % 251) as u8;
    const COUNT: usize = 1_000_000;
    runtime.block_on(async {
        let (mut writer, mut reader) = pipe(64);
        let sends = spawn(async move {
            let bytes: Vec<u8> = (0..COUNT).map(byte).collect();
            let mut left = &bytes[..];
            while !left.is_empty() {
                let piece = left.len().min(1 + left.len() % 100);
                left = &left[writer.write(&left[..piece]).await.unwrap()..];
            }
            writer.flush().await.unwrap();
            assert_eq!(writer.pending(), 0);
        });
        let receives = spawn(async move {
            let (mut at, mut room) = (0, [0; 77]);
            loop {
                let count = reader.read(&mut room).await;
                if count == 0 {
                    break at;
                }
                for got in &room[..count] {
                    assert_eq!(*got, byte(at));
                    at += 1;
                }
            }
        });
        let (sent, received) = join!(sends, receives);
        sent.unwrap();
        assert_eq!(received.unwrap(), COUNT);
    });
}

#[test]
fn who_waits_hears_that_the_other_end_is_gone() {
    let (mut writer, reader) = pipe(4);
    assert_eq!(writer.put(b"abcdef"), 4);
    let waits = std::thread::spawn(move || block_on_simple(writer.write(b"x")));
    drop(reader);
    assert_eq!(waits.join().unwrap(), Err(Closed));

    let (mut writer, mut reader) = pipe(4);
    writer.put(b"ab");
    drop(writer);
    let mut room = [0; 8];
    assert_eq!(
        block_on_simple(reader.read(&mut room)),
        2,
        "what was put is there"
    );
    assert_eq!(block_on_simple(reader.read(&mut room)), 0);
}

#[test]
fn a_read_that_is_dropped_takes_nothing() {
    let (mut writer, mut reader) = pipe(4);
    let mut context = Context::from_waker(Waker::noop());
    let mut room = [0; 4];
    assert_eq!(reader.poll_read(&mut context, &mut room), Poll::Pending);
    writer.put(b"ab");
    writer.wake();
    assert_eq!(block_on_simple(reader.read(&mut room)), 2);
    // Nothing asked for, nothing waited for.
    assert_eq!(block_on_simple(reader.read(&mut [])), 0);
    assert_eq!(block_on_simple(writer.write(&[])), Ok(0));
}

proptest! {
    /// Against a queue that is surely right.
    #[test]
    fn it_is_a_queue_of_bytes(steps in prop::collection::vec((any::<bool>(), 0usize..20), 0..200)) {
        let (mut writer, mut reader) = pipe(16);
        let (mut model, mut next) = (VecDeque::new(), 0u8);
        for (puts, count) in steps {
            if puts {
                let bytes: Vec<u8> = (0..count).map(|at| next.wrapping_add(at as u8)).collect();
                let put = writer.put(&bytes);
                prop_assert_eq!(put, count.min(16 - model.len()));
                model.extend(&bytes[..put]);
                next = next.wrapping_add(put as u8);
            } else {
                let mut room = vec![0; count];
                let taken = reader.take(&mut room);
                prop_assert_eq!(taken, count.min(model.len()));
                let expected: Vec<u8> = model.drain(..taken).collect();
                prop_assert_eq!(&room[..taken], &expected[..]);
            }
            prop_assert_eq!(writer.pending(), model.len());
            prop_assert_eq!(writer.room(), 16 - model.len());
        }
    }
}
