// The headers that are the envelope's: how their names are told from others, and what is wrong with a message whose envelope cannot be read.

import type { MessageFault } from '../source.ts'

/** The headers of `envelope-headers.ts`; none is any other. */
export const EnvelopeHeader = { none: 0, subtopic: 1, publisher: 2, protocol: 3, created: 4, contentType: 5 } as const
export type EnvelopeHeader = (typeof EnvelopeHeader)[keyof typeof EnvelopeHeader]

/** Four letters as the little-endian word that they are in memory. */
function word(letters: string): number {
  return Buffer.from(letters, 'latin1').readInt32LE()
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

/** Which header has the name of `length` bytes at `at`, which must be there. */
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
  reason: 'the key is not UTF-8, so it is no channel id',
  hint: 'give the channel id as the key, as text',
}

/** A tombstone. It deletes nothing here: what is stored stays. */
export const noValue: MessageFault = {
  rule: 'no-value',
  reason: 'the message has no value',
  hint: 'give the payload as the value; a null value deletes nothing',
  subjectKnown: true,
}

export const timestampFault: MessageFault = {
  rule: 'timestamp',
  reason: 'the timestamp of the record lies beyond 2^53 microseconds, and there is no header created',
  hint: 'give the timestamp in milliseconds since 1970, or the header created in nanoseconds',
  subjectKnown: true,
}

function notText(name: string): MessageFault {
  return { rule: 'header', reason: `the header ${name} is not UTF-8`, hint: `give the header ${name} as text, or leave it out` }
}

/** By header: its value cannot be read. */
export const headerFaults: Readonly<Record<EnvelopeHeader, MessageFault | undefined>> = {
  [EnvelopeHeader.none]: undefined,
  [EnvelopeHeader.subtopic]: notText('subtopic'),
  [EnvelopeHeader.publisher]: { ...notText('publisher'), subjectKnown: true },
  [EnvelopeHeader.protocol]: { ...notText('protocol'), subjectKnown: true },
  [EnvelopeHeader.created]: {
    rule: 'header',
    reason: 'the header created is no decimal integer of nanoseconds within 2^53 microseconds of 1970',
    hint: 'give the header created in nanoseconds since 1970, in decimal digits, or leave it out',
    subjectKnown: true,
  },
  [EnvelopeHeader.contentType]: { ...notText('content-type'), subjectKnown: true },
}
