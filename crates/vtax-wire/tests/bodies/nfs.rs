//! Replies of an NFS server, calls to one: any bytes are read to their end or refused, and never cause a panic.

use vtax_wire::nfs3::results as v3;
use vtax_wire::nfs4::{Attributes, Results};
use vtax_wire::rpc::{self, Record};
use vtax_wire::xdr::Reader;

fn each(mut results: Results<'_>, operations: &[u8]) {
    for operation in operations {
        let refused = match operation % 19 {
            0 => results.exchange_id().is_err(),
            1 => results.create_session().is_err(),
            2 => results.sequence().is_err(),
            3 => results.handle().is_err(),
            4 => results.open().is_err(),
            5 => results.close().is_err(),
            6 => results.attributes(Attributes::File).is_err(),
            7 => results.attributes(Attributes::FileSystem).is_err(),
            8 => results.data(1 << 20).is_err(),
            9 => results.written().is_err(),
            10 => results.committed().is_err(),
            11 => results.entries(|_| ()).is_err(),
            12 => results.create_directory().is_err(),
            13 => results.file().is_err(),
            14 => results.root().is_err(),
            15 => results.lookup().is_err(),
            16 => results.set_size().is_err(),
            17 => results.reclaim_complete().is_err(),
            _ => results.removed().is_err(),
        };
        if refused {
            return;
        }
    }
}

/// Results of version 3, whatever they are of.
fn of_version_3(reader: Reader<'_>) {
    let _ = (v3::attributes(reader), v3::set(reader), v3::looked_up(reader), v3::data(reader, 1 << 20));
    let _ = (v3::written(reader), v3::committed(reader), v3::created(reader), v3::made_directory(reader));
    let _ = (v3::removed(reader), v3::removed_directory(reader), v3::limits(reader), v3::space(reader));
    let _ = (v3::mounted(reader), v3::port(reader), v3::entries(reader, |_| ()));
}

/// Takes any bytes.
pub(crate) fn body(data: &[u8]) {
    let Some((operations, input)) = data.split_at_checked(8) else { return };
    let mut input = input.to_vec();
    if let Ok(Record::Whole { message, .. }) = rpc::record(&mut input, 1 << 20) {
        let message = &input[message];
        let _ = (rpc::answered(message), rpc::called(message).map(|call| call.procedure));
        if let Ok(reader) = rpc::results(message) {
            of_version_3(reader);
            if let Ok(results) = Results::read(reader) {
                each(results, operations);
            }
        }
    }
    of_version_3(Reader::new(&data[8..]));
    if let Ok(results) = Results::read(Reader::new(&data[8..])) {
        each(results, operations);
    }
}
