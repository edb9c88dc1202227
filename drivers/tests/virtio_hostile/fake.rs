//! The device's side: registers that say what they are told to, and hands in the shared memory.

use drivers::virtio::{VERSION_1, queue::Places, transport::Transport};
use executor::io::StartError;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Numbers that a seed decides.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 16) % end
    }

    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    /// A number at which code goes wrong: about `edge`, small, large, or any.
    pub fn nasty(&mut self, edge: u32) -> u32 {
        match self.below(6) {
            0 => edge,
            1 => edge.wrapping_add(1),
            2 => edge.wrapping_sub(1),
            3 => self.below(8) as u32,
            4 => u32::MAX - self.below(8) as u32,
            _ => self.next() as u32,
        }
    }
}

/// A queue, as the device sees it.
#[derive(Clone, Copy)]
pub struct Ring {
    pub size: u16,
    places: Places,
    next_available: u16,
    next_used: u16,
}

/// A piece of a chain: where, how long, whether the device writes it.
pub type Piece = (u64, u32, bool);

fn read<T>(address: u64) -> T {
    // SAFETY: the driver gave the address of memory that it keeps as long as the device is not reset; nothing else runs meanwhile.
    unsafe { core::ptr::with_exposed_provenance::<T>(address as usize).read_volatile() }
}

fn write<T>(address: u64, value: T) {
    // SAFETY: as for `read`.
    unsafe { core::ptr::with_exposed_provenance_mut::<T>(address as usize).write_volatile(value) }
}

impl Ring {
    pub fn new(size: u16, places: Places) -> Self {
        Self {
            size,
            places,
            next_available: 0,
            next_used: 0,
        }
    }

    /// The first descriptor of the chain that was added last.
    pub fn last_added(&self) -> u16 {
        let index: u16 = read(self.places.available + 2);
        let entry = index.wrapping_sub(1) % self.size;
        read(self.places.available + 4 + 2 * u64::from(entry))
    }

    /// The pieces of a chain.
    pub fn chain(&self, first: u16) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let mut at = first;
        loop {
            let place = self.places.descriptors + 16 * u64::from(at);
            let flags: u16 = read(place + 12);
            pieces.push((read(place), read(place + 8), flags & 2 != 0));
            assert!(
                pieces.len() <= usize::from(self.size),
                "a chain is a circle"
            );
            if flags & 1 == 0 {
                return pieces;
            }
            at = read(place + 14);
            assert!(at < self.size, "a chain leads out of the table");
        }
    }

    /// Takes the next chain that is available, as an honest device does.
    pub fn take(&mut self) -> Option<(u16, Vec<Piece>)> {
        let index: u16 = read(self.places.available + 2);
        if index == self.next_available {
            return None;
        }
        let entry = self.next_available % self.size;
        let first: u16 = read(self.places.available + 4 + 2 * u64::from(entry));
        self.next_available = self.next_available.wrapping_add(1);
        Some((first, self.chain(first)))
    }

    /// Says that a chain is used.
    pub fn put(&mut self, first: u32, written: u32) {
        let entry = self.places.used + 4 + 8 * u64::from(self.next_used % self.size);
        write(entry, first);
        write(entry + 4, written);
        self.move_to(self.next_used.wrapping_add(1));
    }

    /// Says how many are used.
    pub fn move_to(&mut self, index: u16) {
        self.next_used = index;
        write(self.places.used + 2, index);
    }

    pub fn used_index(&self) -> u16 {
        read(self.places.used + 2)
    }

    pub fn used_entry(&self, index: u16) -> (u32, u32) {
        let entry = self.places.used + 4 + 8 * u64::from(index % self.size);
        (read(entry), read(entry + 4))
    }

    /// Writes over something that is shared, but for the used index. From here on descriptors may be nonsense.
    pub fn scribble(&self, random: &mut Random) {
        let size = u64::from(self.size);
        let (place, length) = match random.below(4) {
            0 => (self.places.descriptors, 16 * size),
            1 => (self.places.available, 6 + 2 * size),
            2 => (self.places.used + 4, 8 * size + 2),
            _ => (self.places.used, 2),
        };
        for _ in 0..1 + random.below(8) {
            write(place + random.below(length), random.next() as u8);
        }
    }
}

/// Copies to where a chain's pieces that the device writes are, from the first on.
pub fn write_to(pieces: &[Piece], bytes: &[u8]) -> u32 {
    let room = pieces.iter().filter(|piece| piece.2);
    let places = room.flat_map(|piece| (0..u64::from(piece.1)).map(|at| piece.0 + at));
    places
        .zip(bytes)
        .map(|(place, byte)| write(place, *byte))
        .count() as u32
}

/// What is in those that it reads.
pub fn read_from(pieces: &[Piece]) -> Vec<u8> {
    let given = pieces.iter().filter(|piece| !piece.2);
    let places = given.flat_map(|piece| (0..u64::from(piece.1)).map(|at| piece.0 + at));
    places.map(read).collect()
}

/// What the registers say.
pub struct Device {
    pub random: Random,
    pub is_legacy: bool,
    pub features: u64,
    pub accepted: u64,
    pub status: u8,
    pub configuration: Vec<u8>,
    pub changes_all_the_time: bool,
    pub sizes: [u16; 2],
    pub takes_smaller: bool,
    pub refuses_features: bool,
    pub never_resets: bool,
    pub rings: [Option<Ring>; 2],
    pub notified: u64,
}

impl Device {
    /// Mostly one that can be driven, with these features of its own.
    pub fn new(seed: u64, own: u64, configuration: Vec<u8>) -> Self {
        let mut random = Random::new(seed);
        let is_legacy = random.one_in(3);
        let mut features = own | random.next() & (1 << 29 | 1 << 27);
        if !is_legacy {
            features |= VERSION_1;
        }
        // Bits that nobody has asked for, and sometimes without one that is needed.
        if random.one_in(2) {
            features |= random.next() & !(1 << 1 | 1 << 5 | 1 << 9);
        }
        if random.one_in(64) {
            features = random.next();
        }
        let mut size = || match random.below(32) {
            0 => random.next() as u16,
            1 => 0,
            2 => 3,
            _ => 1 << random.below(6),
        };
        Self {
            is_legacy,
            features,
            accepted: 0,
            status: 0,
            configuration,
            changes_all_the_time: false,
            sizes: [size(), size()],
            takes_smaller: !is_legacy || random.one_in(2),
            refuses_features: random.one_in(64),
            // Its memory is never freed then, which the sanitizer would tell of.
            never_resets: random.one_in(5_000) && !cfg!(asan),
            rings: [None; 2],
            notified: 0,
            random,
        }
    }

    /// One that can be driven, for who tells it himself how to lie.
    pub fn plain(configuration: Vec<u8>) -> Self {
        Self {
            is_legacy: false,
            features: VERSION_1,
            sizes: [16; 2],
            takes_smaller: true,
            refuses_features: false,
            never_resets: false,
            ..Self::new(1, 0, configuration)
        }
    }

    pub fn ring(&mut self, queue: usize) -> &mut Ring {
        self.rings[queue]
            .as_mut()
            .expect("the driver has set it up")
    }

    /// Both at once.
    pub fn random_and_ring(&mut self, queue: usize) -> (&mut Random, &mut Ring) {
        let ring = self.rings[queue].as_mut();
        (&mut self.random, ring.expect("the driver has set it up"))
    }

    /// Lies about what it has used. True: it has scribbled too, and addresses are no addresses any more.
    pub fn lie(&mut self, queue: usize) -> bool {
        let (random, ring) = self.random_and_ring(queue);
        match random.below(4) {
            0 => {
                let first = random.nasty(ring.size.into());
                let written = random.nasty(1526);
                ring.put(first, written);
            }
            1 => {
                let first = random.below(ring.size.into()) as u32;
                ring.put(first, random.nasty(1526));
            }
            2 => ring.move_to(random.next() as u16),
            _ => {
                ring.scribble(random);
                return true;
            }
        }
        false
    }
}

/// The device, for the driver and for the test.
#[derive(Clone)]
pub struct Fake(Arc<Mutex<Device>>);

impl Fake {
    pub fn new(device: Device) -> Self {
        Self(Arc::new(Mutex::new(device)))
    }

    pub fn device(&self) -> MutexGuard<'_, Device> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Transport for Fake {
    fn is_legacy(&self) -> bool {
        self.device().is_legacy
    }

    fn features(&self) -> u64 {
        self.device().features
    }

    fn accept(&self, features: u64) {
        let mut device = self.device();
        assert_eq!(features & !device.features, 0, "it was not offered");
        device.accepted = features;
    }

    fn status(&self) -> u8 {
        let device = self.device();
        match device.refuses_features {
            true => device.status & !8,
            false => device.status,
        }
    }

    fn set_status(&self, status: u8) {
        let mut device = self.device();
        if status == 0 && device.never_resets {
            device.status |= 64;
        } else {
            device.status = status;
        }
    }

    fn queue_size(&self, queue: u16) -> u16 {
        self.device().sizes[usize::from(queue)]
    }

    fn takes_smaller_queues(&self) -> bool {
        self.device().takes_smaller
    }

    fn set_queue(&mut self, queue: u16, size: u16, places: Places) -> Result<(), StartError> {
        self.device().rings[usize::from(queue)] = Some(Ring::new(size, places));
        Ok(())
    }

    fn notify(&self, _: u16) {
        self.device().notified += 1;
    }

    fn acknowledge(&self) -> bool {
        !self.device().random.one_in(8)
    }

    fn configuration(&self, offset: usize) -> Option<u8> {
        let mut device = self.device();
        let byte = device.configuration.get(offset).copied()?;
        match device.changes_all_the_time {
            true => Some(device.random.next() as u8),
            false => Some(byte),
        }
    }

    fn generation(&self) -> u32 {
        let mut device = self.device();
        match device.changes_all_the_time {
            true => device.random.next() as u32,
            false => 0,
        }
    }
}
