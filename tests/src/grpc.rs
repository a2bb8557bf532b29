//! As much of gRPC and Protocol Buffers as five calls need: curl speaks HTTP/2.

use crate::World;

/// A message under construction; the kubelet's `api.proto` says which field is which.
#[derive(Clone, Debug, Default)]
pub struct Message(Vec<u8>);

impl Message {
    /// Appends a string field.
    pub fn text(self, field: u8, text: &str) -> Self {
        self.bytes(field, text.as_bytes())
    }

    /// Appends a message field.
    pub fn message(self, field: u8, message: &Self) -> Self {
        self.bytes(field, &message.0)
    }

    /// Appends an integer field.
    pub fn number(mut self, field: u8, number: u64) -> Self {
        self.0.push(field << 3);
        self.varint(number);
        self
    }

    fn bytes(mut self, field: u8, bytes: &[u8]) -> Self {
        self.0.push(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    /// The first string or message in field `field`.
    pub fn get(&self, field: u8) -> Option<Self> {
        let mut rest = self.0.as_slice();
        while let Some((&tag, after)) = rest.split_first() {
            let (number, after) = read_varint(after)?;
            let length = if tag & 7 == 2 { number as usize } else { 0 };
            if tag >> 3 == field {
                return Some(Self(after.get(..length)?.to_vec()));
            }
            rest = after.get(length..)?;
        }
        None
    }

    /// This field's bytes as text.
    pub fn into_text(self) -> String {
        String::from_utf8(self.0).expect("a string field")
    }
}

fn read_varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let end = bytes.iter().position(|byte| byte & 0x80 == 0)?;
    let number =
        bytes[..=end].iter().rev().fold(0, |number, byte| number << 7 | u64::from(byte & 0x7f));
    Some((number, &bytes[end + 1..]))
}

/// What `method` answers to `request`: one unary call. `scratch` is a folder of the world.
///
/// # Panics
/// When it is refused.
#[track_caller]
pub fn call(
    world: &World,
    socket: &str,
    method: &str,
    scratch: &str,
    request: &Message,
) -> Message {
    let mut framed = vec![0];
    framed.extend_from_slice(&(request.0.len() as u32).to_be_bytes());
    framed.extend_from_slice(&request.0);
    std::fs::write(world.path(&format!("{scratch}/request")), framed)
        .expect("the request is written");
    let said = world.sh(&format!(
        "cd {scratch}; curl -sS --max-time 60 --http2-prior-knowledge --unix-socket {socket} \
         -H 'content-type: application/grpc' -H 'te: trailers' --data-binary @request \
         -D - -o answer http://localhost/{method}"
    ));
    assert!(said.contains("grpc-status: 0"), "{method}: {said}");
    let answer = std::fs::read(world.path(&format!("{scratch}/answer"))).expect("an answer");
    Message(answer.get(5..).unwrap_or_default().to_vec())
}
