//! Virtio's devices, as QEMU plays them: a network card.

use crate::{boot_info, devices};
use alloc::{boxed::Box, string::String, vec::Vec};
use core::future::poll_fn;
use drivers::{link::Link, virtio::net};
use executor::{Runtime, io::devices as all};
use hal::board::{self, Board};
use testing::kernel_test;

/// QEMU's own network: who routes, and who we say we are.
const ROUTER: [u8; 4] = [10, 0, 2, 2];
const OURS: [u8; 4] = [10, 0, 2, 15];
const ARP: [u8; 2] = [0x08, 0x06];

fn has_virtio() -> bool {
    matches!(board::platform().board, Board::Pc | Board::Virt)
}

fn on_all_cores(future: impl Future<Output = ()> + 'static) {
    let runtime = Runtime::new().expect("no other runtime has the cores");
    runtime.block_on(future);
    runtime.shutdown();
}

async fn state_of(name: &str) -> String {
    let devices = all::devices().await;
    let named = devices
        .into_iter()
        .find(|info| info.name.as_deref() == Some(name));
    named.map_or_else(String::new, |info| info.state)
}

/// Sees to it that a device runs, whatever other tests have done with it.
async fn run(name: &str) {
    devices::start(boot_info()).await;
    let state = state_of(name).await;
    let runs = state.starts_with("running") || all::start(name).await;
    assert!(runs, "{name} does not run: {state}");
}

/// Who has the router's address?
fn question(from: [u8; 6]) -> Vec<u8> {
    let mut frame = Vec::new();
    frame.extend([0xff; 6]);
    frame.extend(from);
    frame.extend(ARP);
    // Ethernet, IPv4, their lengths, a question.
    frame.extend([0, 1, 8, 0, 6, 4, 0, 1]);
    frame.extend(from);
    frame.extend(OURS);
    frame.extend([0; 6]);
    frame.extend(ROUTER);
    frame
}

/// Whether this is the answer to that.
fn is_answer(frame: &[u8], to: [u8; 6]) -> bool {
    frame.len() >= 42
        && frame[..6] == to
        && frame[12..14] == ARP
        && frame[20..22] == [0, 2]
        && frame[28..32] == ROUTER
        && frame[38..42] == OURS
}

async fn ask(link: &mut Box<dyn Link>) {
    let address = link.address().expect("it is Ethernet");
    let frame = question(address);
    while !link.has_room() {
        let ready = poll_fn(|context| link.poll_ready(true, context)).await;
        ready.expect("the card is there");
    }
    assert!(link.send(frame.len(), &mut |room| room.copy_from_slice(&frame)));
    loop {
        let mut is_heard = false;
        while link.receive(&mut |frame| is_heard |= is_answer(frame, address)) {}
        if is_heard {
            return;
        }
        let ready = poll_fn(|context| link.poll_ready(false, context)).await;
        ready.expect("the card is there");
    }
}

#[kernel_test(limit = 240)]
fn a_network_card_asks_who_has_an_address_and_is_told() {
    if !has_virtio() {
        return;
    }
    on_all_cores(async {
        run("net0").await;
        for _ in 0..3 {
            let mut link = net::next_link().await;
            // Both rings go round more than once.
            for _ in 0..300 {
                ask(&mut link).await;
            }
            assert!(!link.send(link.longest() + 1, &mut |_| panic!("it is too long")));
            let state = state_of("net0").await;
            crate::println!("note: net0 {state}");
            assert!(
                !state.contains(" 0 interrupts"),
                "it was not by interrupts: {state}"
            );
            assert!(all::stop("net0").await);
            let gone = poll_fn(|context| link.poll_ready(true, context)).await;
            assert_eq!(gone, None);
            assert!(!link.has_room() && !link.receive(&mut |_| panic!("there is nothing")));
            drop(link);
            assert!(all::start("net0").await);
        }
        // One that nobody has taken.
        assert!(all::stop("net0").await);
        all::stop("uart0").await;
    });
}
