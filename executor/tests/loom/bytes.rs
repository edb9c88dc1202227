//! Bytes in a ring: those that come out are those that went in, in their order, and none is written while it is read.

use executor::io::ring::Ring;
use loom::{
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    thread,
};
use std::sync::Arc;

/// One puts four bytes into a ring of two, as it finds room, and one takes them: loom sees to it that a byte that is read was
/// written before, and is not written again before that.
#[test]
fn bytes_come_out_as_they_went_in() {
    loom::model(|| {
        let ring = Arc::new(Ring::try_new(2).unwrap());
        // Steps on a shared word: loom may leave out orders of a thread that loads before it changes.
        let steps = Arc::new(AtomicUsize::new(0));
        let (of_putter, its_steps) = (ring.clone(), steps.clone());
        let putter = thread::spawn(move || {
            let mut put = 0;
            for _ in 0..3 {
                its_steps.fetch_add(1, Relaxed);
                let all = [1, 2, 3, 4];
                // SAFETY: this is the only one who puts.
                put += unsafe { of_putter.put(&all[put..]) };
            }
            put
        });
        let mut taken: Vec<u8> = Vec::new();
        for _ in 0..3 {
            steps.fetch_add(1, Relaxed);
            let mut room = [0; 2];
            // SAFETY: this is the only one who takes.
            let count = unsafe { ring.take(&mut room) };
            taken.extend(&room[..count]);
        }
        let put = putter.join().unwrap();
        let mut room = [0; 4];
        // SAFETY: as above.
        let count = unsafe { ring.take(&mut room) };
        taken.extend(&room[..count]);
        assert!(ring.is_empty());
        assert_eq!(taken, [1, 2, 3, 4][..put]);
        assert!(put >= 2, "there was room for two");
    });
}
