//! What the server of tests answers in version 3, and as MOUNT and port mapper. All are at its one port.

use std::sync::atomic::Ordering;

use vtax_wire::nfs::status;
use vtax_wire::nfs3::{MOUNT_PROGRAM, PORT_MAPPER};
use vtax_wire::rpc::Procedure;
use vtax_wire::xdr::{Reader, XdrError, fixed, long, opaque, word};

use crate::fake::{Act, Answer, Ended, Fake, TRANSFER};

impl Answer {
    pub(crate) fn version_3(
        &mut self,
        fake: &Fake,
        procedure: Procedure,
        call: &mut Reader<'_>,
    ) -> Result<Ended, XdrError> {
        if procedure.program == PORT_MAPPER {
            self.words(&[fake.mapped.load(Ordering::Relaxed)]);
            return Ok(Ok(()));
        }
        if procedure.program == MOUNT_PROGRAM {
            return self.of_mount(fake, procedure.number, call);
        }
        if procedure.number == 0 {
            return Ok(Ok(()));
        }
        self.here = String::from_utf8_lossy(call.opaque(64)?).into_owned();
        word(&mut self.out, status::OK);
        match procedure.number {
            1 => self.attributes_3(fake),
            2 => {
                // Of what can be set, only the size is.
                let (_, size) = (call.fixed(16)?, call.long()? as usize);
                fake.files.lock().unwrap().entry(self.here.clone()).or_default().resize(size, 0);
                self.unchanged();
            }
            6 => return self.read_3(fake, call),
            7 => return self.write_3(fake, call),
            17 => {
                self.words(&[0]);
                fixed(&mut self.out, &[0; 8]);
                for name in &*fake.names.lock().unwrap() {
                    self.words(&[1]);
                    long(&mut self.out, 9);
                    opaque(&mut self.out, name.as_bytes());
                    long(&mut self.out, 3);
                    // Without attributes and handle.
                    self.words(&[0, 0]);
                }
                self.words(&[0, 1]);
            }
            18 => {
                self.words(&[0]);
                [1 << 40, 0, fake.free.load(Ordering::Relaxed), 0, 0, 0]
                    .into_iter()
                    .for_each(|value| long(&mut self.out, value));
                self.words(&[0]);
            }
            19 => {
                self.words(&[0, TRANSFER, TRANSFER, 1, TRANSFER, TRANSFER, 1, 4096]);
                long(&mut self.out, 1 << 60);
                self.words(&[0, 1, 0]);
            }
            21 => {
                self.act = fake.act();
                if let Act::Fail(status) = self.act {
                    return Ok(Err(status));
                }
                self.unchanged();
                fixed(&mut self.out, &fake.verifier());
            }
            number => return self.of_names_3(fake, number, call),
        }
        Ok(Ok(()))
    }

    fn of_mount(&mut self, fake: &Fake, number: u32, call: &mut Reader<'_>) -> Result<Ended, XdrError> {
        let path = call.opaque(1024)?;
        match (number, path) {
            (1, b"/vtax") => {
                fake.sessions.fetch_add(1, Ordering::Relaxed);
                word(&mut self.out, status::OK);
                opaque(&mut self.out, b"vtax");
                self.words(&[1, 1]);
            }
            (1, _) => return Ok(Err(status::ACCESS)),
            _ => {}
        }
        Ok(Ok(()))
    }

    /// LOOKUP, CREATE, MKDIR, REMOVE, RMDIR.
    fn of_names_3(&mut self, fake: &Fake, number: u32, call: &mut Reader<'_>) -> Result<Ended, XdrError> {
        let name = String::from_utf8_lossy(call.opaque(255)?).into_owned();
        match number {
            3 if fake.has(&name) => {
                opaque(&mut self.out, name.as_bytes());
                self.words(&[0, 0]);
            }
            3 => return Ok(Err(status::NOENT)),
            8 | 9 => {
                if number == 8 {
                    if let Some(status) = fake.opens.lock().unwrap().pop() {
                        return Ok(Err(status));
                    }
                    fake.files.lock().unwrap().entry(name.clone()).or_default();
                } else {
                    fake.made.lock().unwrap().push(name.clone());
                }
                // Of what a server may tell of a new file, nothing but its handle.
                word(&mut self.out, 1);
                opaque(&mut self.out, name.as_bytes());
                self.words(&[0]);
                self.unchanged();
            }
            12 | 13 => {
                fake.removed.lock().unwrap().push(name);
                self.unchanged();
            }
            other => panic!("procedure {other}"),
        }
        Ok(Ok(()))
    }

    /// How a file or directory changed: it isn't told.
    fn unchanged(&mut self) {
        self.words(&[0, 0]);
    }

    fn attributes_3(&mut self, fake: &Fake) {
        let size = fake.files.lock().unwrap().get(&self.here).map_or(0, Vec::len);
        self.words(&[1, 0o644, 1, 0, 0]);
        long(&mut self.out, size as u64);
        self.out.extend_from_slice(&[0; 56]);
    }

    fn read_3(&mut self, fake: &Fake, call: &mut Reader<'_>) -> Result<Ended, XdrError> {
        let (offset, length) = (call.long()? as usize, call.word()? as usize);
        Ok(self.fetched(fake, offset, length).map(|(data, end)| {
            word(&mut self.out, 1);
            self.attributes_3(fake);
            self.words(&[data.len() as u32, end.into()]);
            opaque(&mut self.out, &data);
        }))
    }

    fn write_3(&mut self, fake: &Fake, call: &mut Reader<'_>) -> Result<Ended, XdrError> {
        let (offset, _count, stable) = (call.long()? as usize, call.word()?, call.word()?);
        let data = call.opaque(TRANSFER as usize)?;
        Ok(self.stored(fake, offset, data, stable).map(|told| {
            self.unchanged();
            self.words(&told);
            fixed(&mut self.out, &fake.verifier());
        }))
    }
}
