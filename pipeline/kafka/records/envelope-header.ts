// Recognizes the envelope's headers by name, and defines the faults of messages whose envelope cannot be read.

import { createdFault, type MessageFault } from '../../source.ts'

/** The headers of `envelope-headers.ts`; `none` is any other header. */
export const EnvelopeHeader = { none: 0, subtopic: 1, publisher: 2, protocol: 3, created: 4, contentType: 5 } as const
export type EnvelopeHeader = (typeof EnvelopeHeader)[keyof typeof EnvelopeHeader]

/** Four letters as a little-endian word, as they are in memory. */
function word(text: string): number {
  return Buffer.from(text, 'latin1').readInt32LE()
}

const subt = word('subt')
const opic = word('opic')
const prot = word('prot')
const ocol = word('ocol')
const publ = word('publ')
const ishe = word('ishe')
const sher = word('sher')
const crea = word('crea')
const ated = word('ated')
const cont = word('cont')
const entDash = word('ent-')
const type = word('type')

/** The header with the name of `length` bytes at `at`; the bytes must be in range. */
export function envelopeHeaderAt(view: DataView, at: number, length: number): EnvelopeHeader {
  switch (length) {
    case 7:
      return view.getInt32(at, true) === crea && view.getInt32(at + 3, true) === ated ? EnvelopeHeader.created : EnvelopeHeader.none
    case 8: {
      const first = view.getInt32(at, true)
      const second = view.getInt32(at + 4, true)
      if (first === subt && second === opic) return EnvelopeHeader.subtopic
      return first === prot && second === ocol ? EnvelopeHeader.protocol : EnvelopeHeader.none
    }
    case 9:
      return view.getInt32(at, true) === publ && view.getInt32(at + 4, true) === ishe && view.getInt32(at + 5, true) === sher
        ? EnvelopeHeader.publisher
        : EnvelopeHeader.none
    case 12:
      return view.getInt32(at, true) === cont && view.getInt32(at + 4, true) === entDash && view.getInt32(at + 8, true) === type
        ? EnvelopeHeader.contentType
        : EnvelopeHeader.none
    default:
      return EnvelopeHeader.none
  }
}

export const keyFault: MessageFault = {
  rule: 'key-text',
  reason: 'the key is not UTF-8, so it is not a channel id',
  hint: 'send the channel id as the key, as text',
  part: 'channel',
}

/** A tombstone, which deletes nothing here: stored rows stay. */
export const noValue: MessageFault = {
  rule: 'no-value',
  reason: 'the message has no value',
  hint: 'send the payload as the value; a null value deletes nothing',
  subjectKnown: true,
}

export const timestampFault: MessageFault = createdFault(
  'the timestamp of the record',
  'send the timestamp in milliseconds since 1970, or the header created in nanoseconds',
)

function notText(name: string): MessageFault {
  return { rule: 'header', reason: `the header ${name} is not UTF-8`, hint: `send the header ${name} as text, or omit it` }
}

/** The fault of an unreadable value, by header. */
export const headerFaults: Readonly<Record<EnvelopeHeader, MessageFault | undefined>> = {
  [EnvelopeHeader.none]: undefined,
  [EnvelopeHeader.subtopic]: { ...notText('subtopic'), part: 'subtopic' },
  [EnvelopeHeader.publisher]: { ...notText('publisher'), subjectKnown: true, part: 'publisher' },
  [EnvelopeHeader.protocol]: { ...notText('protocol'), subjectKnown: true },
  [EnvelopeHeader.created]: createdFault('the header created', 'send the header created in nanoseconds since 1970, in decimal digits'),
  [EnvelopeHeader.contentType]: { ...notText('content-type'), subjectKnown: true, part: 'contentType' },
}
