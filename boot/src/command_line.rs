//! Options on the kernel's command line.
//!
//! Words separated by blanks, each `name` or `name=value`. One that is unknown
//! or malformed is named and ignored: a typing error must not keep a machine
//! from booting.

use core::{fmt, net::Ipv4Addr};

/// Most bytes of a command line that are kept.
pub const ROOM: usize = 2048;

/// What the command line asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options<'a> {
    /// `log=error|warn|info|debug|trace|off`: what is shown on the console.
    pub log: Level,
    /// `cores=n`: use no more than this many.
    pub cores: usize,
    /// `quantum=n`: milliseconds a task may keep its core; 0: for ever.
    pub quantum_ms: u32,
    /// `watchdog=off|report|kill|panic|reset`: what happens if something goes on no more.
    pub watchdog: Watchdog,
    /// `net=off|dhcp|address/prefix[,gateway[,names]]`: where the network's address comes from.
    pub network: Network,
    /// `test=text`: only tests whose name contains it.
    pub test: &'a str,
    /// `long`: the tests that take long, instead of those that do not.
    pub long: bool,
    /// `disk`: the tests that need a disk, which is there, instead of those that do not.
    pub disk: bool,
    /// `from=n`: tests below this number have run before.
    pub from: usize,
    /// `torture=seed`: tests are preempted at random moments.
    pub torture: Option<Torture>,
    /// `exit=qemu`: there is a QEMU that takes an exit status.
    pub exit_to_qemu: bool,
    /// `tour`: show what works, then switch off.
    pub tour: bool,
    /// `idle`: come up and sleep, to measure what that costs.
    pub idle: bool,
    /// `bench`: measure, then switch off.
    pub bench: bool,
}

/// What the watchdog does when it finds something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watchdog {
    /// It does not look.
    Off,
    /// Says what it has found.
    Report,
    /// And makes a task fail.
    Kill,
    /// And stops the machine.
    Panic,
    /// And restarts it.
    Reset,
}

impl Watchdog {
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "off" => Self::Off,
            "report" => Self::Report,
            "kill" => Self::Kill,
            "panic" => Self::Panic,
            "reset" => Self::Reset,
            _ => return None,
        })
    }
}

/// Where the network's address comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// There is no network.
    Off,
    /// The network is asked.
    Dhcp,
    /// It is told.
    Static {
        /// The address.
        address: Ipv4Addr,
        /// How many bits of it all in its network have in common.
        prefix: u8,
        /// By whom all others are reached.
        gateway: Option<Ipv4Addr>,
        /// Who knows names.
        names: Option<Ipv4Addr>,
    },
}

impl Network {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "off" => return Some(Self::Off),
            "dhcp" => return Some(Self::Dhcp),
            _ => {}
        }
        let mut parts = text.split(',');
        let (address, prefix) = parts.next()?.split_once('/')?;
        let mut optional = || match parts.next() {
            None | Some("") => Some(None),
            Some(part) => part.parse().ok().map(Some),
        };
        let network = Self::Static {
            address: address.parse().ok()?,
            prefix: prefix.parse().ok().filter(|prefix| *prefix <= 32)?,
            gateway: optional()?,
            names: optional()?,
        };
        parts.next().is_none().then_some(network)
    }
}

/// Random moments, chosen by a seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Torture {
    /// Not 0.
    pub seed: u64,
    /// The shortest time between two of them, in nanoseconds.
    pub shortest: u64,
    /// The longest.
    pub longest: u64,
}

impl Torture {
    /// `seed` or `seed:shortest:longest`.
    fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split(':').map(|number| number.parse::<u64>().ok());
        let seed = numbers.next()??;
        let (shortest, longest) = match numbers.next() {
            None => (300, 6_000),
            Some(shortest) => (shortest?, numbers.next()??),
        };
        let is_sane = seed != 0 && shortest < longest && numbers.next().is_none();
        is_sane.then_some(Self {
            seed,
            shortest,
            longest,
        })
    }
}

/// How much is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Level {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl Level {
    /// The level of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "off" => Self::Off,
            "error" => Self::Error,
            "warn" => Self::Warn,
            "info" => Self::Info,
            "debug" => Self::Debug,
            "trace" => Self::Trace,
            _ => return None,
        })
    }
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self {
            log: Level::Info,
            cores: hal::cores::MAX_CORES,
            quantum_ms: 10,
            watchdog: Watchdog::Report,
            network: Network::Dhcp,
            test: "",
            long: false,
            disk: false,
            from: 0,
            torture: None,
            exit_to_qemu: false,
            tour: false,
            idle: false,
            bench: false,
        }
    }
}

/// A word that was ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Complaint<'a> {
    /// The word.
    pub word: &'a str,
    /// What would have been right; `None`: no option has this name.
    pub expected: Option<&'static str>,
}

impl fmt::Display for Complaint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.word;
        match self.expected {
            Some(expected) => write!(f, "option `{word}` ignored: expected {expected}"),
            None => write!(
                f,
                "option `{word}` ignored: known are log= cores= quantum= watchdog= net= test= from= torture= exit= long disk tour idle bench"
            ),
        }
    }
}

impl<'a> Options<'a> {
    /// Reads a command line; `complain` hears of each word that is ignored.
    pub fn parse(text: &'a str, complain: &mut dyn FnMut(Complaint<'a>)) -> Self {
        let mut options = Self::default();
        for word in text.split_ascii_whitespace() {
            if let Err(expected) = options.take(word) {
                complain(Complaint { word, expected });
            }
        }
        options
    }

    fn take(&mut self, word: &'a str) -> Result<(), Option<&'static str>> {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word, None),
        };
        match (name, value) {
            ("log", value) => {
                let expected = "log=off|error|warn|info|debug|trace";
                self.log = value.and_then(Level::parse).ok_or(Some(expected))?;
            }
            ("cores", value) => {
                let cores = value.and_then(|value| value.parse().ok());
                let valid = cores.filter(|cores| (1..=hal::cores::MAX_CORES).contains(cores));
                self.cores = valid.ok_or(Some("cores=1 to cores=64"))?;
            }
            ("quantum", value) => {
                let quantum = value.and_then(|value| value.parse().ok());
                self.quantum_ms = quantum.ok_or(Some("quantum=<milliseconds>, 0 for none"))?;
            }
            ("watchdog", value) => {
                let expected = "watchdog=off|report|kill|panic|reset";
                self.watchdog = value.and_then(Watchdog::parse).ok_or(Some(expected))?;
            }
            ("net", value) => {
                let expected = "net=off, net=dhcp or net=<address>/<prefix>[,<gateway>[,<names>]]";
                self.network = value.and_then(Network::parse).ok_or(Some(expected))?;
            }
            ("test", Some(value)) => self.test = value,
            ("test", None) => return Err(Some("test=<part of a name>")),
            ("from", value) => {
                let from = value.and_then(|value| value.parse().ok());
                self.from = from.ok_or(Some("from=<number of a test>"))?;
            }
            ("torture", value) => {
                let expected =
                    "torture=<seed> or torture=<seed>:<shortest>:<longest>, in nanoseconds";
                self.torture = Some(value.and_then(Torture::parse).ok_or(Some(expected))?);
            }
            ("exit", Some("qemu")) => self.exit_to_qemu = true,
            ("exit", _) => return Err(Some("exit=qemu")),
            ("long", None) => self.long = true,
            ("disk", None) => self.disk = true,
            ("tour", None) => self.tour = true,
            ("idle", None) => self.idle = true,
            ("bench", None) => self.bench = true,
            ("long" | "disk" | "tour" | "idle" | "bench", Some(_)) => {
                return Err(Some("the bare word, without a value"));
            }
            _ => return Err(None),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> (Options<'_>, Vec<String>) {
        let mut complaints = Vec::new();
        let options = Options::parse(text, &mut |c| complaints.push(c.to_string()));
        (options, complaints)
    }

    #[test]
    fn an_empty_line_gives_the_defaults() {
        let (options, complaints) = parse("");
        assert_eq!(options, Options::default());
        assert!(complaints.is_empty());
    }

    #[test]
    fn every_option_is_understood() {
        let (options, complaints) = parse(
            " log=debug cores=3\tquantum=0 watchdog=kill net=off test=a=b long disk from=7 torture=5:1:9 exit=qemu tour idle bench ",
        );
        assert_eq!(
            options,
            Options {
                log: Level::Debug,
                cores: 3,
                quantum_ms: 0,
                watchdog: Watchdog::Kill,
                network: Network::Off,
                test: "a=b",
                long: true,
                disk: true,
                from: 7,
                torture: Some(Torture {
                    seed: 5,
                    shortest: 1,
                    longest: 9
                }),
                exit_to_qemu: true,
                tour: true,
                idle: true,
                bench: true,
            }
        );
        assert!(complaints.is_empty());
    }

    #[test]
    fn an_address_may_have_a_gateway_and_somebody_who_knows_names() {
        let network = |text| parse(text).0.network;
        let of = |gateway, names| Network::Static {
            address: Ipv4Addr::new(10, 0, 2, 15),
            prefix: 24,
            gateway,
            names,
        };
        let (gateway, names) = (Ipv4Addr::new(10, 0, 2, 2), Ipv4Addr::new(10, 0, 2, 3));
        assert_eq!(network("net=10.0.2.15/24"), of(None, None));
        assert_eq!(
            network("net=10.0.2.15/24,10.0.2.2"),
            of(Some(gateway), None)
        );
        let both = of(Some(gateway), Some(names));
        assert_eq!(network("net=10.0.2.15/24,10.0.2.2,10.0.2.3"), both);
        assert_eq!(network("net=10.0.2.15/24,,10.0.2.3"), of(None, Some(names)));
        for wrong in [
            "net",
            "net=",
            "net=10.0.2.15",
            "net=10.0.2.15/33",
            "net=10.0.2/24",
            "net=10.0.2.15/24,x",
            "net=10.0.2.15/24,10.0.2.2,10.0.2.3,10.0.2.4",
        ] {
            let (options, complaints) = parse(wrong);
            assert_eq!(
                (options.network, complaints.len()),
                (Network::Dhcp, 1),
                "{wrong}"
            );
        }
    }

    #[test]
    fn torture_has_a_seed_and_maybe_bounds() {
        let (options, _) = parse("torture=17");
        let torture = options.torture.unwrap();
        assert_eq!(
            (torture.seed, torture.shortest < torture.longest),
            (17, true)
        );
        for wrong in [
            "torture",
            "torture=0",
            "torture=1:2",
            "torture=1:5:2",
            "torture=1:2:3:4",
        ] {
            assert_eq!(parse(wrong).1.len(), 1, "{wrong}");
        }
    }

    #[test]
    fn what_is_wrong_is_named_and_the_rest_still_counts() {
        let (options, complaints) = parse(
            "cores=0 cores=65 cores log=loud colour=blue log=warn tour=yes exit=0 watchdog=bite",
        );
        assert_eq!(options.log, Level::Warn);
        assert_eq!(options.cores, 64);
        assert_eq!(complaints.len(), 8);
        assert_eq!(options.watchdog, Watchdog::Report);
        assert_eq!(
            complaints[0],
            "option `cores=0` ignored: expected cores=1 to cores=64"
        );
        assert!(complaints[4].starts_with("option `colour=blue` ignored: known are log= "));
        assert_eq!(
            complaints[5],
            "option `tour=yes` ignored: expected the bare word, without a value"
        );
        assert_eq!(
            complaints[7],
            "option `watchdog=bite` ignored: expected watchdog=off|report|kill|panic|reset"
        );
    }
}
