// Compares documents with JSON.parse, and with themselves after they were written as text.

import { jsonText } from '../../../transformers/json/json-text.ts'
import type { DocumentColumns } from '../../../transformers/record-batch.ts'
import type { Transformer } from '../../../transformers/transformer.ts'
import { differ, type Property } from '../property.ts'
import { isRightTime, isStorable } from './rows.ts'
import { openSlate, sameJson } from './slate.ts'

const utf8 = new TextDecoder('utf-8', { fatal: true })

/** Documents equal those of JSON.parse, and can be stored. Input that is refused as invalid JSON or UTF-8 is invalid. */
export function asParsed(transformer: Transformer): Property {
  const slate = openSlate()
  return {
    name: 'documents equal those of JSON.parse, and can be stored',
    holds(input) {
      const fault = slate.decode(transformer, input)
      if (fault !== undefined && fault.rule !== 'json-syntax' && fault.rule !== 'utf-8') return
      const parsed = parse(input)
      if (fault !== undefined) {
        if (parsed !== undefined) throw new Error(`refused by ${fault.rule}, and JSON.parse takes it`)
        return
      }
      if (parsed === undefined) throw new Error('taken, and JSON.parse refuses it')
      const { documents, records } = slate.batch
      if (records.length > 0) throw new Error('documents gave records')
      const roots = Array.isArray(parsed.root) ? parsed.root : [parsed.root]
      if (roots.length !== documents.length) throw new Error(differ('documents', documents.length, roots.length))
      for (let row = 0; row < documents.length; row++) {
        const payload = documents.payload[row]!
        if (documents.index[row] !== row) throw new Error(differ(`index of document ${row}`, documents.index[row], row))
        if (documents.format[row] !== 'room') throw new Error(differ(`format of document ${row}`, documents.format[row], 'room'))
        if (!isRightTime(documents.createdUs[row]!) || documents.createdRestNs[row]! > 999)
          throw new Error(`the time of document ${row} is none`)
        if (!isStorable(payload)) throw new Error(`document ${row} cannot be stored`)
        // JSON.parse itself may read an escaped key as another one (transformers/json/README.md).
        if (!parsed.text.includes('\\') && !sameJson(payload, roots[row])) throw new Error(differ(`document ${row}`, payload, roots[row]))
      }
    },
  }
}

/** Keeps all digits of an integer beyond 2^53, by the source text of each number (TC39: JSON.parse source text access). */
function withBigints(_key: string, value: unknown, context?: { readonly source?: string }): unknown {
  if (typeof value !== 'number' || Number.isSafeInteger(value) || !/^-?\d+$/.test(context?.source ?? '')) return value
  return BigInt(context!.source!)
}

/** The result of JSON.parse for the bytes; undefined if they are not JSON or not UTF-8. */
function parse(input: Uint8Array): { text: string; root: unknown } | undefined {
  try {
    const text = utf8.decode(input)
    // A reviver is slow, and few texts have such integers.
    return { text, root: /\d{16}/.test(text) ? JSON.parse(text, withBigints) : JSON.parse(text) }
  } catch {
    return undefined
  }
}

/**
 * Each document, written as text and read again, is written as the same text. The value may differ: a double beyond 2^53 is written as
 * an integer, and is read as one with all its digits.
 */
export function asWritten(transformer: Transformer): Property {
  const [first, second] = [openSlate(), openSlate()]
  return {
    name: 'a document written as text is read as the same document',
    holds(input) {
      if (first.decode(transformer, input) !== undefined) return
      const text = textOf(first.batch.documents)
      const fault = second.decode(transformer, Buffer.from(text))
      if (fault !== undefined) throw new Error(`what was written is refused: ${fault.message}`, { cause: fault })
      const again = textOf(second.batch.documents)
      if (text !== again) throw new Error(differ('the text', text, again))
      for (let row = 0; row < first.batch.documents.length; row++) {
        const [before, after] = [first.batch.documents.payload[row], second.batch.documents.payload[row]]
        if (!sameJson(after, before, false)) throw new Error(differ(`document ${row}`, after, before))
      }
    },
  }
}

function textOf({ payload, length }: DocumentColumns): string {
  // An array adds a level, which is not allowed for a document with the maximum depth.
  return length === 1 ? jsonText(payload[0]!) : `[${payload.slice(0, length).map(jsonText).join(',')}]`
}
