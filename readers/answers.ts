// Pages on their way out: JSON, NDJSON or CSV, compressed where the client takes it, with the way to the next page.

import type { FastifyReply } from 'fastify'
import { coded } from './content-coding.ts'
import { openCsv } from './csv.ts'
import { cutWhereNothingIsTaken } from './idle-client.ts'
import { contentTypes, type Form } from './media-type.ts'
import type { Answer } from './pages.ts'
import { printPage } from './printing.ts'
import { furtherOn } from './query-text.ts'
import type { Question } from './question.ts'
import type { Bucket, Row } from './reader.ts'
import { bucketsJson, type Frame, frameEnd, frameStart } from './record-json.ts'

export type Page = { readonly rows: Answer<Row> } | { readonly buckets: Answer<Bucket> }

/** What is longer does not go into the buffers of a connection at once, and waits in this process for its client. */
const sentAtOnceBytesMax = 64 * 1024

/** An answer whole: whoever asks the same is sent the same. */
export interface Printed {
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Buffer
}

/** In what an answer is printed. */
export interface Printing {
  readonly question: Exclude<Question, { kind: 'export' }>
  readonly form: Form
  readonly isCoded: boolean
  /** As it was asked for. */
  readonly url: string
}

/** @throws the signal's reason */
export async function printAnswer(page: Page, { question, form, isCoded, url }: Printing, signal: AbortSignal): Promise<Printed> {
  const { total, nextCursor: sealCursor, hasMore } = 'rows' in page ? page.rows : page.buckets
  const nextCursor = sealCursor?.()
  const { offset, selection, limit, csvSafe, keys } = question
  const frame: Frame = { total, offset, limit, format: selection.format, nextCursor, keys }
  const text =
    'rows' in page ? await printPage(form, frame, page.rows.items, csvSafe, signal) : bucketsText(form, frame, page.buckets.items, csvSafe)
  const { headers, body } = await printText(form, text, isCoded)
  if (!hasMore) return { headers, body }
  // RFC 8288: the same question, further on.
  const link = `<${furtherOn(url, nextCursor === undefined ? { offset: offset + limit } : { cursor: nextCursor })}>; rel="next"`
  return { headers: { ...headers, link }, body }
}

export async function printText(form: Form, text: string | Buffer, isCoded: boolean): Promise<Printed> {
  const bytes = isCoded ? await coded(text) : undefined
  const headers = headersOf(form)
  if (bytes !== undefined) headers['content-encoding'] = 'gzip'
  return { headers, body: bytes ?? text }
}

/** @param idleMsMax a client that takes nothing of a long one for so long is cut off */
export function sendPrinted(reply: FastifyReply, { headers, body }: Printed, idleMsMax: number): FastifyReply {
  if (body.length > sentAtOnceBytesMax) cutWhereNothingIsTaken(reply.raw, idleMsMax)
  return reply.headers(headers).send(body)
}

function bucketsText(form: Form, frame: Frame, buckets: readonly Bucket[], csvSafe: boolean): string {
  if (form === 'csv') {
    const csv = openCsv('bucket', csvSafe, frame.keys)
    return csv.header() + csv.buckets(buckets)
  }
  const items = bucketsJson(buckets, form === 'json' ? ',' : '\n', frame.keys)
  if (form === 'json') return frameStart(frame) + items + frameEnd(frame)
  return items === '' ? '' : `${items}\n`
}

/** What is answered depends on who asks, and on what they take; where browsers may ask (`http.allowed_origins`), on the page that does. */
export function headersOf(form: Form): Record<string, string> {
  return {
    'content-type': contentTypes[form],
    'cache-control': 'private, no-store',
    vary: 'accept, accept-encoding, authorization, origin',
  }
}
