// Answers on their way out: JSON, NDJSON or CSV, whole or page after page, compressed where the client takes it, with the way to the next page.

import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import { openCsv } from './csv.ts'
import { contentTypes, type Form } from './media-type.ts'
import type { Answer } from './pages.ts'
import type { Question } from './question.ts'
import { type Bucket, type Row, senmlFormat } from './reader.ts'
import { bucketsJson, type Frame, frameEnd, frameStart, rowsJson } from './record-json.ts'

interface Sent {
  readonly question: Question
  readonly form: Form
}

/** A page, whole. */
export async function sendAnswer(
  reply: FastifyReply,
  sent: Sent & ({ readonly rows: Answer<Row> } | { readonly buckets: Answer<Bucket> }),
): Promise<FastifyReply> {
  const { question, form } = sent
  const { total, nextCursor, hasMore } = 'rows' in sent ? sent.rows : sent.buckets
  const limit = question.kind === 'export' ? 'all' : question.limit
  const frame: Frame = { total, offset: question.offset, limit, format: question.selection.format, nextCursor }
  if (hasMore && limit !== 'all') {
    reply.header('link', nextLink(reply, nextCursor === undefined ? { offset: question.offset + limit } : { cursor: nextCursor }))
  }
  return reply.headers(headersOf(form)).send(textOf())

  function textOf(): string {
    if (form === 'csv') {
      const csv = openCsv('rows' in sent ? kindOf(question) : 'bucket', question.csvSafe)
      return csv.header() + ('rows' in sent ? csv.rows(sent.rows.items) : csv.buckets(sent.buckets.items))
    }
    const divider = form === 'json' ? ',' : '\n'
    const items = 'rows' in sent ? rowsJson(sent.rows.items, divider) : bucketsJson(sent.buckets.items, divider)
    if (form === 'json') return frameStart(frame) + items + frameEnd(frame)
    return items === '' ? '' : `${items}\n`
  }
}

/** Every row: the first page is there before the answer begins, so that what is wrong by then is an error and not an end. */
export async function sendExport(
  reply: FastifyReply,
  { question, form, pages }: Sent & { readonly pages: AsyncGenerator<readonly Row[]> },
): Promise<FastifyReply> {
  const first = await pages.next()
  const { offset, selection } = question
  const frame: Frame = { total: undefined, offset, limit: 'all', format: selection.format }

  async function* chunks(): AsyncGenerator<string> {
    const csv = openCsv(kindOf(question), question.csvSafe)
    if (form === 'csv') yield csv.header()
    if (form === 'json') yield frameStart(frame)
    let isFirst = true
    try {
      for (let page = first; page.done !== true; page = await pages.next()) {
        if (form === 'csv') yield csv.rows(page.value)
        else if (form === 'ndjson') yield `${rowsJson(page.value, '\n')}\n`
        else yield (isFirst ? '' : ',') + rowsJson(page.value)
        isFirst = false
      }
      if (form === 'json') yield frameEnd(frame)
    } finally {
      await pages.return(undefined)
    }
  }

  return reply.headers(headersOf(form)).send(Readable.from(chunks(), { objectMode: false, highWaterMark: 64 * 1024 }))
}

function kindOf({ selection }: Question): Row['kind'] {
  return selection.format === senmlFormat ? 'senml' : 'document'
}

/** What is answered depends on who asks, and on what they take. */
function headersOf(form: Form): Record<string, string> {
  return { 'content-type': contentTypes[form], 'cache-control': 'private, no-store', vary: 'accept, authorization' }
}

/** RFC 8288: the same question, further on. */
function nextLink(reply: FastifyReply, next: { cursor: string } | { offset: number }): string {
  const [path = '', query = ''] = reply.request.url.split('?')
  const parameters = new URLSearchParams(query)
  parameters.delete('offset')
  parameters.delete('cursor')
  for (const [name, value] of Object.entries(next)) parameters.set(name, String(value))
  return `<${path}?${parameters.toString()}>; rel="next"`
}
