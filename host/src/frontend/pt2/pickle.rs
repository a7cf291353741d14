//! The pickles of older layouts, read without running anything: a dictionary from names to tensors, and nothing else.
//!
//! A pickle is a program for a stack machine that can call any Python function. This machine knows the opcodes that
//! `torch.save` uses for such a dictionary and the few globals that rebuild tensors; every other opcode or global is an
//! error that names it. Work and memory are linear in the pickle's length: containers are shared, never copied, and
//! nesting is limited.
//! Deliberately not here: the storages' bytes, and whether a tensor fits its storage (`weights`).

use std::collections::HashMap;
use std::rc::Rc;

use super::graph::ScalarType;
use crate::frontend::{ModelError, ModelResult};

/// Deeper nesting than any tensor needs.
const MAX_DEPTH: usize = 16;

/// A tensor as the pickle describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct PickledTensor {
    /// Key of the storage: the entry `data/<key>`.
    pub storage: String,
    pub dtype: ScalarType,
    pub sizes: Vec<i64>,
    pub strides_elems: Vec<i64>,
    pub offset_elems: i64,
    pub requires_grad: bool,
}

/// The dictionary that the pickle `entry` builds; names in the order in which they were set.
///
/// # Errors
/// `model::pickle` for anything that is no dictionary of tensors.
pub fn tensors(pickle: &[u8], entry: &str) -> ModelResult<Vec<(String, PickledTensor)>> {
    let mut machine = Machine {
        pickle,
        at: 0,
        entry,
        stack: Vec::new(),
        marks: Vec::new(),
        memo: HashMap::new(),
        dict: Vec::new(),
    };
    let top = machine.run()?;
    if !matches!(top, Value::TopDict) {
        return Err(machine.error("it is no dictionary of tensors"));
    }
    let Machine { dict, .. } = machine;
    Ok(dict)
}

#[derive(Clone, Debug)]
enum Value {
    None,
    Bool(bool),
    Int(i64),
    Str(Rc<str>),
    /// A tuple and how deeply it nests.
    Tuple(Rc<[Value]>, usize),
    /// The one dictionary that counts.
    TopDict,
    /// An `OrderedDict`: hooks, always empty in what is accepted.
    Hooks,
    Global(Global),
    Storage(Rc<StorageRef>),
    Tensor(Rc<PickledTensor>),
}

#[derive(Clone, Copy, Debug)]
enum Global {
    RebuildTensorV2,
    RebuildTensorV3,
    RebuildParameter,
    OrderedDict,
    /// A typed storage with the schema's dtype number.
    StorageType(ScalarType),
    UntypedStorage,
    Dtype(ScalarType),
}

#[derive(Debug)]
struct StorageRef {
    key: String,
    /// None: untyped.
    dtype: Option<ScalarType>,
}

/// The globals that are allowed, by module and name.
fn global(module: &str, name: &str) -> Option<Global> {
    let storage = |number| Some(Global::StorageType(ScalarType(number)));
    let dtype = |number| Some(Global::Dtype(ScalarType(number)));
    match (module, name) {
        ("torch._utils", "_rebuild_tensor_v2") => Some(Global::RebuildTensorV2),
        ("torch._utils", "_rebuild_tensor_v3") => Some(Global::RebuildTensorV3),
        ("torch._utils", "_rebuild_parameter") => Some(Global::RebuildParameter),
        ("collections", "OrderedDict") => Some(Global::OrderedDict),
        ("torch", "ByteStorage") => storage(1),
        ("torch", "CharStorage") => storage(2),
        ("torch", "ShortStorage") => storage(3),
        ("torch", "IntStorage") => storage(4),
        ("torch", "LongStorage") => storage(5),
        ("torch", "HalfStorage") => storage(6),
        ("torch", "FloatStorage") => storage(7),
        ("torch", "DoubleStorage") => storage(8),
        ("torch", "ComplexFloatStorage") => storage(10),
        ("torch", "ComplexDoubleStorage") => storage(11),
        ("torch", "BoolStorage") => storage(12),
        ("torch", "BFloat16Storage") => storage(13),
        ("torch" | "torch.storage", "UntypedStorage") => Some(Global::UntypedStorage),
        ("torch", "uint16") => dtype(28),
        ("torch", "float8_e4m3fn") => dtype(29),
        ("torch", "float8_e5m2") => dtype(30),
        ("torch", "float8_e4m3fnuz") => dtype(31),
        ("torch", "float8_e5m2fnuz") => dtype(32),
        ("torch", "float8_e8m0fnu") => dtype(33),
        ("torch", "uint32") => dtype(34),
        ("torch", "uint64") => dtype(35),
        _ => None,
    }
}

struct Machine<'a> {
    pickle: &'a [u8],
    at: usize,
    entry: &'a str,
    stack: Vec<Value>,
    marks: Vec<usize>,
    memo: HashMap<u32, Value>,
    dict: Vec<(String, PickledTensor)>,
}

impl Machine<'_> {
    fn error(&self, why: impl Into<String>) -> ModelError {
        ModelError::Pickle { entry: self.entry.to_owned(), at: self.at, why: why.into() }
    }

    fn run(&mut self) -> ModelResult<Value> {
        loop {
            match self.byte()? {
                b'.' => return self.pop(),
                opcode => self.step(opcode)?,
            }
        }
    }

    fn step(&mut self, opcode: u8) -> ModelResult<()> {
        match opcode {
            0x80 => {
                let version = self.byte()?;
                if version > 5 {
                    return Err(self.error(format!("pickle protocol {version} is unknown")));
                }
            }
            b'}' => self.new_dict()?,
            b'(' => self.marks.push(self.stack.len()),
            b'X' => {
                let len = self.u32()?;
                self.push_str(len as usize)?;
            }
            0x8c => {
                let len = self.byte()?;
                self.push_str(len as usize)?;
            }
            b'q' => {
                let key = self.byte()?;
                self.remember(u32::from(key))?;
            }
            b'r' => {
                let key = self.u32()?;
                self.remember(key)?;
            }
            b'h' => {
                let key = self.byte()?;
                self.recall(u32::from(key))?;
            }
            b'j' => {
                let key = self.u32()?;
                self.recall(key)?;
            }
            b'c' => self.push_global()?,
            b'K' => {
                let value = self.byte()?;
                self.stack.push(Value::Int(i64::from(value)));
            }
            b'M' => {
                let bytes = self.take::<2>()?;
                self.stack.push(Value::Int(i64::from(u16::from_le_bytes(bytes))));
            }
            b'J' => {
                let bytes = self.take::<4>()?;
                self.stack.push(Value::Int(i64::from(i32::from_le_bytes(bytes))));
            }
            0x8a => self.push_long()?,
            b't' => {
                let items = self.popped_to_mark()?;
                self.push_tuple(items)?;
            }
            0x85..=0x87 => {
                let n = usize::from(opcode - 0x84);
                let from = self.stack.len().checked_sub(n).ok_or_else(|| self.error("the stack is empty"))?;
                let items = self.stack.split_off(from);
                self.push_tuple(items)?;
            }
            b')' => self.push_tuple(Vec::new())?,
            b'Q' => self.push_storage()?,
            0x88 => self.stack.push(Value::Bool(true)),
            0x89 => self.stack.push(Value::Bool(false)),
            b'N' => self.stack.push(Value::None),
            b'R' => self.reduce()?,
            b's' => {
                let value = self.pop()?;
                let key = self.pop()?;
                self.set_items(vec![key, value])?;
            }
            b'u' => {
                let items = self.popped_to_mark()?;
                self.set_items(items)?;
            }
            b'b' => {
                // The state of an object: nothing that is accepted here has one that matters.
                self.pop()?;
            }
            other => return Err(self.error(format!("opcode {other:#04x} is not allowed"))),
        }
        Ok(())
    }

    fn byte(&mut self) -> ModelResult<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn u32(&mut self) -> ModelResult<u32> {
        self.take::<4>().map(u32::from_le_bytes)
    }

    fn take<const N: usize>(&mut self) -> ModelResult<[u8; N]> {
        let rest = self.pickle.get(self.at..).and_then(|rest| rest.first_chunk::<N>()).copied();
        let bytes = rest.ok_or_else(|| self.error("it is cut off"))?;
        self.at += N;
        Ok(bytes)
    }

    fn pop(&mut self) -> ModelResult<Value> {
        self.stack.pop().ok_or_else(|| self.error("the stack is empty"))
    }

    fn popped_to_mark(&mut self) -> ModelResult<Vec<Value>> {
        let mark = self.marks.pop().filter(|mark| *mark <= self.stack.len());
        let mark = mark.ok_or_else(|| self.error("a mark is missing"))?;
        Ok(self.stack.split_off(mark))
    }

    fn push_str(&mut self, len: usize) -> ModelResult<()> {
        let bytes = self.at.checked_add(len).and_then(|end| self.pickle.get(self.at..end));
        let text = bytes.and_then(|bytes| std::str::from_utf8(bytes).ok());
        let text = text.ok_or_else(|| self.error("a text is cut off or not UTF-8"))?;
        self.stack.push(Value::Str(text.into()));
        self.at += len;
        Ok(())
    }

    fn push_long(&mut self) -> ModelResult<()> {
        let len = usize::from(self.byte()?);
        let bytes = self.pickle.get(self.at..self.at + len).filter(|bytes| bytes.len() <= 8);
        let bytes = bytes.ok_or_else(|| self.error("an integer is cut off or does not fit 64 bits"))?;
        // Little-endian two's complement of any length: the sign bit of the last byte fills the rest.
        let fill = if bytes.last().is_some_and(|last| last & 0x80 != 0) { 0xff } else { 0 };
        let mut wide = [fill; 8];
        wide[..len].copy_from_slice(bytes);
        self.stack.push(Value::Int(i64::from_le_bytes(wide)));
        self.at += len;
        Ok(())
    }

    fn push_tuple(&mut self, items: Vec<Value>) -> ModelResult<()> {
        let depth = items.iter().map(|item| if let Value::Tuple(_, depth) = item { *depth } else { 0 }).max();
        let depth = depth.unwrap_or(0) + 1;
        if depth > MAX_DEPTH {
            return Err(self.error("tuples nest too deeply"));
        }
        self.stack.push(Value::Tuple(items.into(), depth));
        Ok(())
    }

    fn new_dict(&mut self) -> ModelResult<()> {
        // Each `EMPTY_DICT` would be a dictionary of its own; only one is wanted, so a second one is foreign.
        if self.at > 4 {
            return Err(self.error("it has a dictionary inside"));
        }
        self.stack.push(Value::TopDict);
        Ok(())
    }

    fn remember(&mut self, key: u32) -> ModelResult<()> {
        let value = self.stack.last().cloned().ok_or_else(|| self.error("the stack is empty"))?;
        self.memo.insert(key, value);
        Ok(())
    }

    fn recall(&mut self, key: u32) -> ModelResult<()> {
        let value = self.memo.get(&key).cloned().ok_or_else(|| self.error("a memo is missing"))?;
        self.stack.push(value);
        Ok(())
    }

    fn line(&mut self) -> ModelResult<String> {
        let rest = self.pickle.get(self.at..).unwrap_or_default();
        let len = rest.iter().take(256).position(|byte| *byte == b'\n');
        let len = len.ok_or_else(|| self.error("a name is cut off"))?;
        let text = String::from_utf8_lossy(&rest[..len]).into_owned();
        self.at += len + 1;
        Ok(text)
    }

    fn push_global(&mut self) -> ModelResult<()> {
        let (module, name) = (self.line()?, self.line()?);
        let found = global(&module, &name);
        let found =
            found.ok_or_else(|| self.error(format!("it needs `{module}.{name}`, which is not allowed")))?;
        self.stack.push(Value::Global(found));
        Ok(())
    }

    /// `('storage', type, key, device, number of elements)`.
    fn push_storage(&mut self) -> ModelResult<()> {
        let id = self.pop()?;
        let storage = match &id {
            Value::Tuple(parts, _) => match &parts[..] {
                [Value::Str(kind), Value::Global(ty), Value::Str(key), Value::Str(_), Value::Int(_)]
                    if &**kind == "storage" =>
                {
                    match ty {
                        Global::StorageType(dtype) => {
                            Some(StorageRef { key: key.to_string(), dtype: Some(*dtype) })
                        }
                        Global::UntypedStorage => Some(StorageRef { key: key.to_string(), dtype: None }),
                        _ => None,
                    }
                }
                _ => None,
            },
            _ => None,
        };
        let storage = storage.ok_or_else(|| self.error("a reference to something that is no storage"))?;
        self.stack.push(Value::Storage(Rc::new(storage)));
        Ok(())
    }

    fn reduce(&mut self) -> ModelResult<()> {
        let args = self.pop()?;
        let callable = self.pop()?;
        let (Value::Tuple(args, _), Value::Global(callable)) = (&args, &callable) else {
            return Err(self.error("a call of something that is no function"));
        };
        let result = match (callable, &args[..]) {
            (Global::OrderedDict, []) => Some(Value::Hooks),
            (
                Global::RebuildTensorV2,
                [Value::Storage(storage), Value::Int(offset), sizes, strides, Value::Bool(grad), ..],
            ) => {
                let dtype = storage.dtype;
                dtype.and_then(|dtype| tensor(storage, dtype, *offset, sizes, strides, *grad))
            }
            (
                Global::RebuildTensorV3,
                [
                    Value::Storage(storage),
                    Value::Int(offset),
                    sizes,
                    strides,
                    Value::Bool(grad),
                    _,
                    Value::Global(Global::Dtype(dtype)),
                    ..,
                ],
            ) => tensor(storage, *dtype, *offset, sizes, strides, *grad),
            (Global::RebuildParameter, [Value::Tensor(tensor), Value::Bool(grad), ..]) => {
                Some(Value::Tensor(Rc::new(PickledTensor { requires_grad: *grad, ..(**tensor).clone() })))
            }
            _ => None,
        };
        let result = result.ok_or_else(|| self.error("a call with arguments that are not understood"))?;
        self.stack.push(result);
        Ok(())
    }

    fn set_items(&mut self, items: Vec<Value>) -> ModelResult<()> {
        match self.stack.last() {
            Some(Value::TopDict) => {}
            // Hooks are Python functions: they must be none.
            _ => return Err(self.error("items for something that is not the dictionary")),
        }
        for pair in items.chunks(2) {
            match pair {
                [Value::Str(name), Value::Tensor(tensor)] => {
                    self.dict.push((name.to_string(), (**tensor).clone()));
                }
                [Value::Str(name), _] => return Err(self.error(format!("`{name}` is no tensor"))),
                _ => return Err(self.error("a key is no text")),
            }
        }
        Ok(())
    }
}

fn tensor(
    storage: &StorageRef,
    dtype: ScalarType,
    offset: i64,
    sizes: &Value,
    strides: &Value,
    requires_grad: bool,
) -> Option<Value> {
    let ints = |value: &Value| match value {
        Value::Tuple(items, _) => items
            .iter()
            .map(|item| if let Value::Int(n) = item { Some(*n) } else { None })
            .collect::<Option<Vec<i64>>>(),
        _ => None,
    };
    Some(Value::Tensor(Rc::new(PickledTensor {
        storage: storage.key.clone(),
        dtype,
        sizes: ints(sizes)?,
        strides_elems: ints(strides)?,
        offset_elems: offset,
        requires_grad,
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(pickle: &[u8]) -> String {
        match tensors(pickle, "data.pkl") {
            Err(ModelError::Pickle { why, .. }) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_empty_dictionary() {
        assert_eq!(tensors(b"\x80\x02}q\x00.", "data.pkl").expect("reads"), vec![]);
    }

    #[test]
    fn nothing_runs() {
        assert!(why(b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R.").contains("`os.system`"));
        assert!(why(b"\x80\x02cbuiltins\neval\n.").contains("`builtins.eval`"));
        assert!(why(b"\x80\x02}(\x8c\x01xK\x01u.").contains("`x` is no tensor"));
        assert!(why(b"\x80\x02K\x01.").contains("no dictionary"));
        assert!(why(b"\x80\x02]q\x00.").contains("0x5d"));
        assert!(why(b"\x80\x02ccollections\nOrderedDict\n)R(K\x01K\x02u.").contains("not the dictionary"));
    }

    #[test]
    fn broken_ones_are_errors() {
        for pickle in [
            &b""[..],
            b".",
            b"\x80",
            b"X\xff\xff\xff\xffabc.",
            b"t.",
            b"u.",
            b"\x87.",
            b"h\x07.",
            b"\x8a\xff\x00.",
            b"\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x00.",
            b"cabc",
            b"Q.",
            b"R.",
            b"(((((",
        ] {
            assert!(tensors(pickle, "data.pkl").is_err(), "{pickle:?}");
        }
        let deep = [b")".as_slice(), &b"\x85".repeat(100_000)].concat();
        assert!(why(&deep).contains("too deeply"));
    }
}
