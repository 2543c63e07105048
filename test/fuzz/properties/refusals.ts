// The contract of every transformer for any payload (transformers/transformer.ts), as used by the pipeline: in the middle of a batch.

import { DecodeError } from '../../../transformers/decode-error.ts'
import { Outcome, RecordBatch } from '../../../transformers/record-batch.ts'
import type { Transformer } from '../../../transformers/transformer.ts'
import { origin } from '../../transformers/json/rows.ts'
import { differ, must, type Property } from '../property.ts'
import { documentsDiffer, envelope, openSlate, ordinalsDiffer, recordsDiffer, type Slate } from './slate.ts'

/**
 * Only a DecodeError is thrown. Once its rows are dropped, the batch is unchanged, and the next message, one of `right`, gives the same rows as alone.
 *
 * @param open opens a transformer that has decoded nothing yet
 * @param right valid payloads
 */
export function refusals(open: () => Transformer, right: readonly Uint8Array[]): Property {
  const transformer = open()
  const expected: readonly Slate[] = right.map(payload => {
    const slate = openSlate()
    const fault = slate.decode(open(), payload)
    if (fault !== undefined) throw fault
    return slate
  })
  const batch = new RecordBatch()
  batch.beginMessage(origin)
  for (const payload of right) transformer.decode(payload, envelope, batch)
  batch.endMessage()
  const before = structuredClone({ messages: batch.messages, records: batch.records, documents: batch.documents })

  /** Begins a message; returns the error that refuses it. */
  function decode(payload: Uint8Array): DecodeError | undefined {
    batch.beginMessage(origin)
    try {
      transformer.decode(payload, envelope, batch)
      batch.endMessage()
      return undefined
    } catch (error) {
      batch.dropRows(Outcome.deadLettered)
      if (error instanceof DecodeError) return error
      throw error
    }
  }

  function batchDiffers(): string | undefined {
    const { messages, records, documents } = batch
    if (messages.length !== 2) return differ('messages', messages.length, 2)
    if (messages.outcome[0] !== Outcome.stored || messages.outcome[1] !== Outcome.deadLettered) return 'the outcomes are wrong'
    return (
      recordsDiffer(records, 0, before.records, 0) ??
      ordinalsDiffer(records, 0, before.records, 0) ??
      documentsDiffer(documents, 0, before.documents, 0)
    )
  }

  return {
    name: 'only a DecodeError is thrown, it leaves nothing in the batch, and the next message is decoded correctly',
    holds(input, random) {
      const turn = random.below(right.length)
      try {
        const lent = Uint8Array.from(input)
        const fault = decode(lent)
        if (Buffer.compare(lent, input) !== 0) throw new Error('the payload was changed')
        if (fault !== undefined) {
          must(faultDiffers(fault))
          must(batchDiffers())
        }
        const { length: records } = batch.records
        const { length: documents } = batch.documents
        const next = decode(right[turn]!)
        if (next !== undefined) throw new Error(`the next message is refused: ${next.message}`, { cause: next })
        const { batch: alone } = expected[turn]!
        must(recordsDiffer(batch.records, records, alone.records, 0))
        must(ordinalsDiffer(batch.records, records, alone.records, 0))
        must(documentsDiffer(batch.documents, documents, alone.documents, 0))
      } finally {
        takeBack(batch, before.records.length, before.documents.length)
      }
    },
  }
}

/** Forty characters of a device, each escaped as six, and the sentence around them. */
const messageLengthMax = 400

/** What is wrong with an error; undefined if nothing is. */
function faultDiffers({ rule, message, hint }: DecodeError): string | undefined {
  if (!/^[a-z0-9]+(-[a-z0-9]+)*$/.test(rule)) return `the rule is ${rule}`
  if (message === '' || message.length > messageLengthMax) return `the message has ${message.length} characters`
  if (hint === '') return 'there is no hint'
  return /[\p{Cc}\p{Cs}]/u.test(message + hint) ? 'the message holds a control character or half of a surrogate pair' : undefined
}

/** The batch with only its first message. */
function takeBack({ messages, records, documents }: RecordBatch, recordCount: number, documentCount: number): void {
  messages.length = 1
  records.length = recordCount
  documents.length = documentCount
}
