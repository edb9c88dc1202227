//! `net`, `ping`, `echo` and `http`.

use crate::{
    network::{ECHO, HTTP, Server, net},
    println,
};
use alloc::string::String;
use core::fmt::Write;
use executor::time::{Duration, sleep};

/// Pings that are sent, unless told otherwise.
const PINGS: usize = 3;
const PATIENCE: Duration = Duration::from_secs(5);

/// Every interface, and the servers.
pub(super) async fn show() {
    let interfaces = net().interfaces();
    if interfaces.is_empty() {
        println!("  no network: it was switched off (`net=off`)");
        return;
    }
    for interface in interfaces {
        let mut line = String::new();
        match interface.config {
            Some(config) => {
                let _ = write!(line, "{}/{}", config.address, config.prefix);
                if let Some(gateway) = config.gateway {
                    let _ = write!(line, ", by way of {gateway}");
                }
                if let Some(names) = config.names {
                    let _ = write!(line, ", names from {names}");
                }
            }
            None => line.push_str("no address yet"),
        }
        if let Some([a, b, c, d, e, f]) = interface.hardware {
            let _ = write!(line, ", {a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}");
        }
        println!("  {}: {line}", interface.name);
        let [received, sent, not_sent] = interface.frames;
        let [open, accepted, overflowed] = interface.connections;
        println!("      frames: {received} received, {sent} sent, {not_sent} had no room");
        println!(
            "      connections: {open} now, {accepted} accepted, {overflowed} found a listener's backlog full"
        );
    }
    for server in [&ECHO, &HTTP] {
        println!("  {}: {}", server.name, server.status().await);
    }
}

/// Whether somebody is there.
pub(super) async fn ping(argument: &str) {
    let (name, count) = argument.split_once(' ').unwrap_or((argument, ""));
    let count = match count.trim() {
        "" => Ok(PINGS),
        count => count.parse(),
    };
    let (false, Ok(count)) = (name.is_empty(), count) else {
        println!("  ping <name or address> [<how often>]");
        return;
    };
    let address = match net().resolve(name).await {
        Ok(addresses) if !addresses.is_empty() => addresses[0],
        Ok(_) => {
            println!("  `{name}` has no address");
            return;
        }
        Err(error) => {
            println!("  {name}: {error}");
            return;
        }
    };
    for number in 0..count {
        if number > 0 {
            sleep(Duration::from_secs(1)).await;
        }
        match net().ping(address, PATIENCE).await {
            Ok(took) => println!("  {address} answers after {} us", took.as_micros()),
            Err(error) => println!("  {address}: {error}"),
        }
    }
}

/// Begins or ends a server, or says how it is.
pub(super) async fn server(server: &'static Server, argument: &str) {
    match (argument, argument.parse::<u16>()) {
        ("", _) => println!("  {}: {}", server.name, server.status().await),
        ("stop", _) => match server.stop().await {
            true => println!("  {} accepts no more connections", server.name),
            false => println!("  {} does not run", server.name),
        },
        ("start", _) => start(server, server.usual).await,
        (_, Ok(port @ 1..)) => start(server, port).await,
        _ => println!("  {0}; {0} <port>; {0} start; {0} stop", server.name),
    }
}

async fn start(server: &'static Server, port: u16) {
    match server.start(port).await {
        Ok(()) => println!("  {} listens at port {port}", server.name),
        Err(error) => println!("  {} does not listen at port {port}: {error}", server.name),
    }
}
