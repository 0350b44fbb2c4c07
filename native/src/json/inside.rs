//! The content of fields with bytes: which values it depends on, and where in a message's JSON it is put, by the rules
//! of `kafkawire.records.inside_bytes`. Python decodes it.

/// What a field is for that: 0 nothing, a group's protocol type, its assignor, or bytes (from here on).
const PROTOCOL_TYPE: u8 = 1;
const ASSIGNOR: u8 = 2;

/// Bytes with something inside.
pub struct InsideValue {
    /// Where in the JSON what is inside is put: after the last field of the object with the bytes.
    pub at: usize,
    pub role: u8,
    /// Number of the field.
    pub name: usize,
    pub data: Vec<u8>,
    pub protocol_type: Option<Vec<u8>>,
    pub assignor: Option<Vec<u8>>,
}

/// Those of a message, in the order of their places.
#[derive(Default)]
pub struct Inside {
    pub found: Vec<InsideValue>,
    /// Values of structs that have not ended.
    open: Vec<(u8, usize, Vec<u8>)>,
    /// The nearest ones: fields of a struct around the bytes, or of their own.
    protocol_type: Option<Vec<u8>>,
    assignor: Option<Vec<u8>>,
}

impl Inside {
    /// Takes the value of a field with a role.
    pub fn take(&mut self, role: u8, name: usize, data: Option<&[u8]>) {
        match (role, data) {
            (PROTOCOL_TYPE, _) => self.protocol_type = data.map(<[u8]>::to_vec),
            (ASSIGNOR, _) => self.assignor = data.map(<[u8]>::to_vec),
            (_, None | Some([])) => (),
            (_, Some(data)) => self.open.push((role, name, data.to_vec())),
        }
    }

    /// How many values wait for the end of their struct.
    pub fn waiting(&self) -> usize {
        self.open.len()
    }

    /// A struct ends, whose values are those from `first` on; `at`: the end of its last field.
    pub fn end(&mut self, first: usize, at: usize) {
        if self.open.len() == first {
            return;
        }
        for (role, name, data) in self.open.drain(first..) {
            let (protocol_type, assignor) = (self.protocol_type.clone(), self.assignor.clone());
            self.found.push(InsideValue { at, role, name, data, protocol_type, assignor });
        }
    }
}
