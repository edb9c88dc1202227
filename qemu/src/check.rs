//! `check`: can this board run here? One line that says what is wrong and what would work.

use crate::options::Options;
use crate::problem::{Result, stop};
use std::net::{Ipv4Addr, TcpListener};

pub fn check(options: &Options) -> Result<u8> {
    let machine = options.machine()?;
    if let Some(port) = options.port
        && let Err(error) = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
    {
        stop!("TCP port {port} of this host cannot be used ({error}); free it or give another");
    }
    if !options.args_only {
        machine.board.check_qemu()?;
    }
    Ok(0)
}
