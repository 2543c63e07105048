// The most expensive packs of SenML CBOR, written as hexadecimal digits.

import { Major, openCborBytes } from '../inputs/cbor-bytes.ts'
import { counted, shortestFull, type WorstCase } from './filling.ts'

function hex(digits: string): Uint8Array {
  return Buffer.from(digits.replaceAll(' ', ''), 'hex')
}

function head(major: number, argument: number): Uint8Array {
  const output = openCborBytes()
  output.head(major, argument)
  return output.bytes()
}

function textOf(text: string): Uint8Array {
  return Buffer.concat([head(Major.text, Buffer.byteLength(text)), Buffer.from(text)])
}

/** A pack of these records, with some before and after them. */
function pack(
  bytes: number,
  recordOf: (at: number) => Uint8Array,
  first: readonly Uint8Array[] = [],
  last: readonly Uint8Array[] = [],
): Uint8Array {
  const space = bytes - Buffer.concat([...first, ...last]).length
  const body = counted(space, recordOf, count => Buffer.concat([head(Major.array, first.length + count + last.length), ...first]))
  return Uint8Array.from(Buffer.concat([body, ...last]))
}

const oneRecord = '81a3 006161 0201'

/** `{n: 'a', v: 1, 'x': …}` with an array or a map of this many items. */
function ignored(bytes: number, major: number, itemOf: (at: number) => Uint8Array): Uint8Array {
  return counted(bytes, itemOf, count => Buffer.concat([hex(`${oneRecord} 6178`), head(major, count)]))
}

/** A record that ends with a string of this many bytes. */
function oneString(bytes: number, before: string, major: number, byte: number, after = ''): Uint8Array {
  const length = bytes - 32
  return Buffer.concat([hex(before), head(major, length), Buffer.alloc(length, byte), hex(after)])
}

const shortest = hex('a1 06 00')
const based = hex('a2 21 6161 24 01')
const wrong = hex('a1 02 60')

export const worstPacksOfCbor: readonly WorstCase[] = [
  ['as many records as fit, the last is none', 'label-type', bytes => pack(bytes, () => shortest, [based], [wrong])],
  ['as many records as fit', 'taken', bytes => pack(bytes, () => shortest, [based])],
  [
    'records in a short pack, the last is none',
    'label-type',
    bytes => pack(shortestFull(bytes, 3) - 100, () => shortest, [based], [wrong]),
  ],
  [
    'records with a joined name each in a short pack, the last is none',
    'label-type',
    bytes => pack(shortestFull(bytes, 7), at => Buffer.concat([hex('a2 0201 00'), textOf(at.toString(36))]), [based], [wrong]),
  ],
  [
    'records with data in a short pack, the last is none',
    'label-type',
    bytes => pack(Math.min(bytes, 11_000), () => hex('a1 08 41 00'), [hex('a1 21 6161')], [wrong]),
  ],
  ['records of base fields alone', 'taken', bytes => pack(bytes, () => hex('a1 24 01'))],
  [
    'records with a name of its own each, the last is none',
    'label-type',
    bytes => pack(bytes, at => Buffer.concat([hex('a2 0201 00'), textOf(at.toString(36).padStart(8, '0'))]), [], [wrong]),
  ],
  [
    'records with a joined name each, the last is none',
    'label-type',
    bytes => pack(bytes, at => Buffer.concat([hex('a2 0201 00'), textOf(at.toString(36))]), [based], [wrong]),
  ],
  [
    'records with a long base name',
    'taken',
    bytes => pack(bytes, () => hex('a2 006162 0201'), [Buffer.concat([hex('a1 21'), textOf('a'.repeat(bytes / 2))])]),
  ],
  [
    'long names, each another',
    'taken',
    bytes => pack(bytes, at => Buffer.concat([hex('a2 0201 00'), textOf(at.toString(36).padStart(65, '0'))])),
  ],
  ['short texts, each another', 'taken', bytes => pack(bytes, at => Buffer.concat([hex('a2 006161 03'), textOf(at.toString(36))]))],
  ['empty data', 'taken', bytes => pack(bytes, () => hex('a1 08 40'), [hex('a1 21 6161')])],
  [
    'data of one byte, and base fields alone where the number of rows is looked at',
    'record-count',
    bytes => pack(bytes, at => hex((at & 127) === 126 ? 'a1 22 00' : 'a1 08 41 00'), [hex('a1 21 6161')]),
  ],
  ['data of one byte', 'taken', bytes => pack(bytes, () => hex('a1 08 41 00'), [hex('a1 21 6161')])],
  ['data of one byte, the last record is none', 'label-type', bytes => pack(bytes, () => hex('a1 08 41 00'), [hex('a1 21 6161')], [wrong])],
  ['the latest record first', 'taken', bytes => pack(bytes, at => Buffer.concat([hex('a1 06'), head(Major.negative, at)]), [based])],
  [
    'times in no order at all',
    'taken',
    bytes => pack(bytes, at => Buffer.concat([hex('a1 06'), head(Major.negative, (at * 7919) % 100_003)]), [based]),
  ],
  ['decimal fractions', 'taken', bytes => pack(bytes, () => hex('a2 006161 02 c482 38ff 1affffffff'))],
  [
    'decimal fractions of the largest numbers',
    'number-finite',
    bytes => pack(bytes, () => hex('a2 006161 02 c482 390142 1bffffffffffffffff'), [], [hex('a2 006161 02 c482 1bffffffffffffffff 01')]),
  ],
  ['one long text', 'taken', bytes => oneString(bytes, '81a2 006161 03', Major.text, 0x61)],
  ['one long text of two-byte letters, cut', 'utf-8', bytes => oneString(bytes, '81a2 006161 03', Major.text, 0xc3)],
  ['one long name', 'taken', bytes => oneString(bytes, '81a2 0201 00', Major.text, 0x61)],
  ['long data', 'taken', bytes => oneString(bytes, '81a2 006161 08', Major.bytes, 0)],
  ['long data, and the next record is none', 'label-type', bytes => oneString(bytes, '82a2 006161 08', Major.bytes, 0, 'a1 02 60')],
  [
    'unknown labels, each another',
    'taken',
    bytes =>
      counted(
        bytes,
        at => Buffer.concat([textOf(`${at.toString(36)}x`), hex('00')]),
        count => Buffer.concat([hex('81'), head(Major.map, count + 2), hex('006161 0201')]),
      ),
  ],
  [
    'unknown labels, the last of them twice',
    'cbor-duplicate-key',
    bytes =>
      counted(
        bytes,
        at => Buffer.concat([textOf(`${at.toString(36)}x`), hex('00')]),
        count => Buffer.concat([hex('81'), head(Major.map, count + 3), hex('006161 0201 6130'), hex('7800'), hex('00')]),
      ),
  ],
  ['empty arrays under an unknown label', 'taken', bytes => ignored(bytes, Major.array, () => hex('80'))],
  ['small maps under an unknown label', 'taken', bytes => ignored(bytes, Major.array, () => hex('a2 0100 0200'))],
  [
    'integer keys under an unknown label',
    'taken',
    bytes =>
      counted(
        bytes,
        at => Buffer.concat([head(Major.unsigned, at), hex('00')]),
        count => Buffer.concat([hex(`${oneRecord} 6178`), head(Major.map, count)]),
      ),
  ],
  ['texts under an unknown label', 'taken', bytes => ignored(bytes, Major.array, () => textOf('€'))],
  ['nested arrays', 'record-object', bytes => Buffer.alloc(bytes, 0x81)],
  [
    'nested arrays under an unknown label',
    'nesting-depth',
    bytes => Buffer.concat([hex(`${oneRecord} 6178`), Buffer.alloc(bytes - 16, 0x81)]),
  ],
  ['nested maps as keys', 'nesting-depth', bytes => Buffer.concat([hex(`${oneRecord} 6178`), Buffer.alloc(bytes - 16, 0xa1)])],
  ['a bignum', 'cbor-tag', bytes => oneString(bytes, '81a2 006161 02 c2', Major.bytes, 0xff)],
  [
    'a count of 2^32 records',
    'cbor-cut',
    bytes =>
      counted(
        bytes,
        () => hex('a2 006161 0201'),
        () => hex('9b 0000000100000000'),
      ),
  ],
  [
    'a count of 2^64 pairs',
    'cbor-duplicate-key',
    bytes =>
      counted(
        bytes,
        () => hex('006161'),
        () => hex('81 bb ffffffffffffffff'),
      ),
  ],
  ['a length of 2^64 bytes', 'cbor-cut', bytes => Buffer.concat([hex('81a2 006161 08 5b ffffffffffffffff'), Buffer.alloc(bytes - 20)])],
  ['indefinite lengths', 'cbor-indefinite', bytes => Buffer.alloc(bytes, 0x9f)],
]
