//! Copies between strided operands of equal dims and element size.

use super::Operand;

/// Copies every element of `src` to `dst`. Both have the same dims and element size (else nothing is copied beyond the
/// common part: callers are the plan's steps, which made them equal), and do not overlap unless they are the same.
pub fn copy_operand(dst: &Operand, src: &Operand) {
    debug_assert_eq!(dst.dims(), src.dims());
    debug_assert_eq!(dst.elem_bytes(), src.elem_bytes());
    if dst.dims() != src.dims() || dst.elem_bytes() != src.elem_bytes() || dst.numel() == 0 {
        return;
    }
    if dst.is_contiguous() && src.is_contiguous() {
        let n = dst.numel() * dst.elem_bytes();
        // SAFETY: both operands stay inside their bytes for `n`; `copy` allows overlap.
        unsafe { std::ptr::copy(src.addr(), dst.addr(), n) };
        return;
    }
    let (dims, ds, ss) = squeezed(dst, src);
    match dst.elem_bytes() {
        1 => copy_dims::<u8>(dst.addr(), src.addr(), &dims, &ds, &ss),
        2 => copy_dims::<u16>(dst.addr(), src.addr(), &dims, &ds, &ss),
        4 => copy_dims::<u32>(dst.addr(), src.addr(), &dims, &ds, &ss),
        8 => copy_dims::<u64>(dst.addr(), src.addr(), &dims, &ds, &ss),
        _ => copy_dims::<u128>(dst.addr(), src.addr(), &dims, &ds, &ss),
    }
}

/// Dims of size 1 dropped and neighbours merged where both operands allow it; the inner loop gets long.
fn squeezed(dst: &Operand, src: &Operand) -> (Vec<i64>, Vec<i64>, Vec<i64>) {
    let (mut dims, mut ds, mut ss) = (Vec::<i64>::new(), Vec::<i64>::new(), Vec::<i64>::new());
    for i in 0..dst.dims().len() {
        let (n, d, s) = (dst.dims()[i], dst.strides_elems()[i], src.strides_elems()[i]);
        if n == 1 {
            continue;
        }
        match (dims.last_mut(), ds.last_mut(), ss.last_mut()) {
            (Some(pn), Some(pd), Some(ps)) if *pd == d * n && *ps == s * n => {
                *pn *= n;
                *pd = d;
                *ps = s;
            }
            _ => {
                dims.push(n);
                ds.push(d);
                ss.push(s);
            }
        }
    }
    (dims, ds, ss)
}

fn copy_dims<T: Copy>(dst: *mut u8, src: *const u8, dims: &[i64], ds: &[i64], ss: &[i64]) {
    let size = size_of::<T>() as isize;
    match (dims, ds, ss) {
        ([n], [d], [s]) => {
            for i in 0..*n as isize {
                // SAFETY: operands stay inside their bytes for every index below their dims. Mapped weights may lie
                // at any address, so nothing is assumed of alignment.
                unsafe {
                    let x = src.offset(i * *s as isize * size).cast::<T>().read_unaligned();
                    dst.offset(i * *d as isize * size).cast::<T>().write_unaligned(x);
                }
            }
        }
        ([n, dims @ ..], [d, ds @ ..], [s, ss @ ..]) => {
            for i in 0..*n as isize {
                let (from, to) = (
                    src.wrapping_offset(i * *s as isize * size),
                    dst.wrapping_offset(i * *d as isize * size),
                );
                copy_dims::<T>(to, from, dims, ds, ss);
            }
        }
        _ => {
            // SAFETY: a zero-dim operand has one element inside its bytes.
            unsafe { dst.cast::<T>().write_unaligned(src.cast::<T>().read_unaligned()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Bytes, Operand};
    use super::*;

    #[test]
    fn copies_transposed_and_expanded() {
        let data: Vec<u8> = (0..6u32).flat_map(|x| x.to_le_bytes()).collect();
        let src = Bytes::copy_of(&data).expect("small");
        let dst = Bytes::zeroed(24).expect("small");
        let to = Operand::new(dst.clone(), 0, 4, vec![3, 2], vec![2, 1]).expect("inside");
        let from = Operand::new(src.clone(), 0, 4, vec![3, 2], vec![1, 3]).expect("inside");
        copy_operand(&to, &from);
        let got: Vec<u32> =
            dst.as_slice().chunks(4).map(|c| u32::from_le_bytes(c.try_into().expect("4"))).collect();
        assert_eq!(got, [0, 3, 1, 4, 2, 5]);
        let row = Operand::new(src, 4, 4, vec![3, 2], vec![0, 1]).expect("inside");
        copy_operand(&to, &row);
        let got: Vec<u32> =
            dst.as_slice().chunks(4).map(|c| u32::from_le_bytes(c.try_into().expect("4"))).collect();
        assert_eq!(got, [1, 2, 1, 2, 1, 2]);
        assert!(Operand::new(dst, 4, 4, vec![3, 2], vec![2, 1]).is_err());
    }
}
