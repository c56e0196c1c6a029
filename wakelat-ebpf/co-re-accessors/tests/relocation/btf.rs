//! Builds the BTF of a made-up kernel in the format that the kernel documents
//! (Documentation/bpf/btf.rst, "BTF Type and String Encoding").

use aya_obj::btf::Btf;

const INT: u32 = 1;
const PTR: u32 = 2;
const ARRAY: u32 = 3;
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const VOLATILE: u32 = 9;

/// The ID of a type; 0 is `void`.
pub type Id = u32;

/// The types of a kernel.
pub struct TargetKernel {
    types: Vec<u32>,
    strings: Vec<u8>,
    last: Id,
}

impl TargetKernel {
    /// A kernel without types.
    pub fn new() -> Self {
        Self { types: vec![], strings: vec![0], last: 0 }
    }

    fn name(&mut self, name: &str) -> u32 {
        if name.is_empty() {
            return 0;
        }
        let offset = self.strings.len();
        self.strings.extend(name.bytes());
        self.strings.push(0);
        offset as u32
    }

    fn ty(&mut self, name: &str, kind: u32, len: usize, size_or_type: u32, rest: &[u32]) -> Id {
        let name = self.name(name);
        self.types.extend([name, (kind << 24) | len as u32, size_or_type]);
        self.types.extend(rest);
        self.last += 1;
        self.last
    }

    /// An integer of `size` bytes.
    pub fn int(&mut self, name: &str, size: u32, signed: bool) -> Id {
        self.ty(name, INT, 0, size, &[(u32::from(signed) << 24) | (size * 8)])
    }

    /// A pointer.
    pub fn pointer(&mut self, to: Id) -> Id {
        self.ty("", PTR, 0, to, &[])
    }

    /// `volatile of`.
    pub fn volatile(&mut self, of: Id) -> Id {
        self.ty("", VOLATILE, 0, of, &[])
    }

    /// An array.
    pub fn array(&mut self, of: Id, len: u32) -> Id {
        self.ty("", ARRAY, 0, 0, &[of, of, len])
    }

    /// A structure, anonymous if the name is empty; the offsets of its members are in bytes.
    pub fn structure(&mut self, name: &str, members: &[(&str, Id, u32)]) -> Id {
        self.composite(STRUCT, name, members)
    }

    /// A union, anonymous if the name is empty; the offsets of its members are in bytes.
    pub fn union(&mut self, name: &str, members: &[(&str, Id, u32)]) -> Id {
        self.composite(UNION, name, members)
    }

    fn composite(&mut self, kind: u32, name: &str, members: &[(&str, Id, u32)]) -> Id {
        let mut rest = vec![];
        for (member, ty, offset) in members {
            rest.extend([self.name(member), *ty, offset * 8]);
        }
        // At least as large as every type in these tests.
        self.ty(name, kind, members.len(), 16384, &rest)
    }

    /// What `/sys/kernel/btf/vmlinux` would contain, in the byte order of this machine, parsed.
    pub fn btf(&self) -> Btf {
        const HEADER: u32 = 24;
        let types = self.types.len() as u32 * 4;
        let mut bytes = vec![];
        bytes.extend(0xeb9f_u16.to_ne_bytes());
        bytes.extend([1, 0]);
        for word in [HEADER, 0, types, types, self.strings.len() as u32].iter().chain(&self.types) {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(&self.strings);
        Btf::parse(&bytes, Default::default()).unwrap()
    }
}
