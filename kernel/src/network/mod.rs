//! The network of the image: a link to itself, whatever cards are found, and two servers.
//!
//! | | |
//! |---|---|
//! | `many` | ten thousand connections at once, and what they take |
//! | `pages` | what the HTTP server shows |
//! | `servers` | echo and HTTP: begun, looked at, ended |

pub mod many;
mod pages;
mod servers;

pub use servers::{ECHO, HTTP, Server};

use alloc::{boxed::Box, format};
use boot::command_line::Network;
use drivers::virtio;
use executor::task::Builder;
use net::{Addresses, Loopback, Net, Static};
use spin::Once;

static NET: Once<Net> = Once::new();

/// The network, of which there is one.
pub fn net() -> &'static Net {
    NET.call_once(Net::new)
}

/// Makes an interface of each link, now and later, and begins the servers.
pub async fn start(network: Network) {
    let addresses = match network {
        Network::Off => return,
        Network::Dhcp => Addresses::Dhcp,
        Network::Static {
            address,
            prefix,
            gateway,
            names,
        } => Addresses::Static(Static {
            address,
            prefix,
            gateway,
            names,
        }),
    };
    let own = Addresses::Static(Static::LOOPBACK);
    attach("lo", Box::new(Loopback::new()), own);
    Builder::new()
        .name("network")
        .spawn(async move {
            for number in 0.. {
                let link = virtio::net::next_link().await;
                attach(&format!("eth{number}"), link, addresses);
            }
        })
        .detach();
    for server in [&ECHO, &HTTP] {
        if let Err(error) = server.start(server.usual).await {
            log::warn!(
                "{} does not listen at {}: {error}",
                server.name,
                server.usual
            );
        }
    }
}

fn attach(name: &str, link: Box<dyn drivers::link::Link>, addresses: Addresses) {
    if let Err(error) = net().attach(name, link, addresses) {
        log::warn!("{name} was not attached: {error}");
    }
}
