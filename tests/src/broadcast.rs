//! Datagrams to many sockets of this machine: delivering them is softirq time in the sending thread.

use std::{
    io,
    net::{Ipv4Addr, SocketAddrV4, UdpSocket},
    os::fd::{AsRawFd as _, FromRawFd as _},
};

use crate::{clock::now_ns, timers::allow_descriptors};

/// The broadcast address of the loopback interface.
const ALL: Ipv4Addr = Ipv4Addr::new(127, 255, 255, 255);

/// A sender, and sockets that each receive every datagram, or drop it once their buffer is full.
pub struct Broadcast {
    sender: UdpSocket,
    to: SocketAddrV4,
    /// One of the receivers, which is emptied after each datagram.
    emptied: UdpSocket,
    _others: Vec<UdpSocket>,
}

impl Broadcast {
    /// Sends to `count` sockets. Brings the loopback interface up if it is down.
    pub fn to(count: u64) -> Self {
        allow_descriptors(count + 100);
        bring_loopback_up();
        let first = receiver(0);
        let port = first.local_addr().expect("a bound socket has an address").port();
        first.set_nonblocking(true).expect("a socket may be made nonblocking");
        let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        sender.set_broadcast(true).expect("SO_BROADCAST needs no privilege");
        let others = (1..count).map(|_| receiver(port)).collect();
        Self { sender, to: SocketAddrV4::new(ALL, port), emptied: first, _others: others }
    }

    /// Sends one byte. Returns how long the call took if the sockets received it meanwhile: ns. Otherwise another task
    /// receives it later.
    pub fn send(&self) -> Option<u64> {
        let begin_ns = now_ns();
        self.sender.send_to(&[1], self.to).expect("the loopback interface is up");
        let took_ns = now_ns() - begin_ns;
        let receives = || self.emptied.recv(&mut [0]).is_ok();
        let received = receives();
        while receives() {}
        received.then_some(took_ns)
    }
}

/// A socket with the smallest possible buffer that shares its port with others; port 0 picks a free one.
fn receiver(port: u16) -> UdpSocket {
    // SAFETY: the call takes three numbers.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    assert!(fd >= 0, "a socket: {}", io::Error::last_os_error());
    // SAFETY: the descriptor was just created and has no other owner.
    let socket = unsafe { UdpSocket::from_raw_fd(fd) };
    for (option, value) in [(libc::SO_REUSEADDR, 1), (libc::SO_RCVBUF, 1)] {
        let value: libc::c_int = value;
        // SAFETY: the number is valid for the call and is only read.
        let result = unsafe {
            libc::setsockopt(fd, libc::SOL_SOCKET, option, (&raw const value).cast(), size_of_val(&value) as u32)
        };
        assert_eq!(result, 0, "{}", io::Error::last_os_error());
    }
    let address = libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from(ALL).to_be() },
        sin_zero: [0; 8],
    };
    // SAFETY: the structure is valid for the call and is only read.
    let result = unsafe { libc::bind(fd, (&raw const address).cast(), size_of_val(&address) as u32) };
    assert_eq!(result, 0, "port {port}: {}", io::Error::last_os_error());
    socket
}

/// Brings up the loopback interface, which may be down on a machine that has just booted.
fn bring_loopback_up() {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a port is free");
    // SAFETY: all zeros is a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[..2].copy_from_slice(&[b'l' as libc::c_char, b'o' as libc::c_char]);
    // SAFETY: the structure is valid for the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS, &raw mut request) };
    assert_eq!(result, 0, "the loopback interface: {}", io::Error::last_os_error());
    // SAFETY: the kernel has just written this field of the union.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    if i32::from(flags) & libc::IFF_UP == 0 {
        request.ifr_ifru.ifru_flags = flags | libc::IFF_UP as i16;
        // SAFETY: the structure is valid for the call.
        let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw mut request) };
        assert_eq!(result, 0, "the loopback interface: {}", io::Error::last_os_error());
    }
}
