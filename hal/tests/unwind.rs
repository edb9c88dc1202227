//! Tests of catching panics.
#![cfg(not(loom))]

use hal::{
    preempt,
    unwind::{catch, resume},
};

#[test]
fn what_does_not_panic_returns_its_value() {
    assert_eq!(catch(|| 5).expect("it does not panic"), 5);
}

#[test]
fn a_panic_is_caught_with_its_message() {
    let literal = catch(|| panic!("a literal")).expect_err("it panics");
    assert_eq!(literal.message(), Some("a literal"));
    let number = std::hint::black_box(7);
    let formatted = catch(|| panic!("number {number}")).expect_err("it panics");
    assert_eq!(formatted.message(), Some("number 7"));
    let other = catch(|| std::panic::panic_any(7)).expect_err("it panics");
    assert_eq!(other.message(), None);
}

#[test]
fn a_panic_that_was_caught_goes_on_where_it_is_resumed() {
    let outer = catch(|| {
        let inner = catch(|| panic!("the first")).expect_err("it panics");
        resume(inner)
    });
    let payload: hal::unwind::Payload = outer.map(|(): ()| ()).expect_err("it panics again");
    assert_eq!(payload.message(), Some("the first"));
}

#[test]
fn what_a_panic_threw_may_panic_as_it_is_dropped() {
    struct Nasty(bool);
    impl Drop for Nasty {
        fn drop(&mut self) {
            if self.0 {
                std::panic::panic_any(Nasty(false));
            }
        }
    }
    let payload = catch(|| std::panic::panic_any(Nasty(true))).expect_err("it panics");
    drop(payload);
    let outer = catch(|| {
        let _dropped_on_the_way = catch(|| std::panic::panic_any(Nasty(true)));
        panic!("the only one to be seen");
    });
    let payload: hal::unwind::Payload = outer.map(|(): ()| ()).expect_err("it panics");
    assert_eq!(payload.message(), Some("the only one to be seen"));
}

#[test]
fn unwinding_drops_guards() {
    let caught = catch(|| {
        let _guard = preempt::guard();
        panic!("under a guard");
    });
    assert!(caught.is_err());
    assert!(preempt::is_allowed());
}
