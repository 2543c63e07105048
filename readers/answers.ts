// Answers on their way out: JSON, NDJSON or CSV, whole or page after page, compressed where the client takes it, with the way to the next page.

import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import { coded, codedStream, takesGzip } from './content-coding.ts'
import { openCsv } from './csv.ts'
import { contentTypes, type Form } from './media-type.ts'
import type { Answer } from './pages.ts'
import { furtherOn } from './query-text.ts'
import type { Question } from './question.ts'
import { type Bucket, type Row, senmlFormat } from './reader.ts'
import { bucketsJson, type Frame, frameEnd, frameStart, linesBytes, pageBytes, rowsBytes } from './record-json.ts'

interface Sent<Asked extends Question> {
  readonly question: Asked
  readonly form: Form
}

/** A page, whole. */
export async function sendAnswer(
  reply: FastifyReply,
  sent: Sent<Exclude<Question, { kind: 'export' }>> & ({ readonly rows: Answer<Row> } | { readonly buckets: Answer<Bucket> }),
): Promise<FastifyReply> {
  const { question, form } = sent
  const { total, nextCursor, hasMore } = 'rows' in sent ? sent.rows : sent.buckets
  const { offset, selection, limit } = question
  const frame: Frame = { total, offset, limit, format: selection.format, nextCursor }
  const text = textOf()
  const bytes = takesGzip(reply.request.headers['accept-encoding']) ? await coded(text) : undefined
  reply.headers(headersOf(form))
  if (hasMore) {
    // RFC 8288: the same question, further on.
    const next = nextCursor === undefined ? { offset: offset + limit } : { cursor: nextCursor }
    reply.header('link', `<${furtherOn(reply.request.url, next)}>; rel="next"`)
  }
  return bytes === undefined ? reply.send(text) : reply.header('content-encoding', 'gzip').send(bytes)

  function textOf(): string | Buffer {
    if (form === 'csv') {
      const csv = openCsv('rows' in sent ? kindOf(question) : 'bucket', question.csvSafe)
      return csv.header() + ('rows' in sent ? csv.rows(sent.rows.items) : csv.buckets(sent.buckets.items))
    }
    if ('rows' in sent) return form === 'json' ? pageBytes(frame, sent.rows.items) : linesBytes(sent.rows.items)
    const items = bucketsJson(sent.buckets.items, form === 'json' ? ',' : '\n')
    if (form === 'json') return frameStart(frame) + items + frameEnd(frame)
    return items === '' ? '' : `${items}\n`
  }
}

/**
 * Every row: the first page is there before the answer begins, so that what is wrong by then is an error and not an end. Who asks for the
 * head alone gets it, and nothing is read.
 */
export async function sendExport(
  reply: FastifyReply,
  { question, form, pages }: Sent<Question & { kind: 'export' }> & { readonly pages: AsyncGenerator<readonly Row[]> },
): Promise<FastifyReply> {
  const isHead = reply.request.method === 'HEAD'
  const isCoded = takesGzip(reply.request.headers['accept-encoding'])
  const first = isHead ? undefined : await pages.next()
  // Only now: the answer to a failure is not in this form.
  reply.headers(headersOf(form))
  if (isCoded) reply.header('content-encoding', 'gzip')
  // Fastify would read the whole export for it. An empty stream has no length, as the answer to GET has none.
  if (first === undefined) return reply.send(Readable.from([]))
  const { offset, selection } = question
  const frame: Frame = { total: undefined, offset, limit: 'all', format: selection.format }

  async function* chunks(): AsyncGenerator<string | Buffer> {
    try {
      const csv = openCsv(kindOf(question), question.csvSafe)
      if (form === 'csv') yield csv.header()
      if (form === 'json') yield frameStart(frame)
      let isFirst = true
      for (let page = first!; page.done !== true; page = await pages.next()) {
        if (form === 'csv') yield csv.rows(page.value)
        else if (form === 'ndjson') yield linesBytes(page.value)
        else yield rowsBytes(page.value, !isFirst)
        isFirst = false
      }
      if (form === 'json') yield frameEnd(frame)
    } finally {
      await pages.return(undefined)
    }
  }

  const text = Readable.from(chunks(), { objectMode: false, highWaterMark: 64 * 1024 })
  return reply.send(isCoded ? codedStream(text) : text)
}

function kindOf({ selection }: Question): Row['kind'] {
  return selection.format === senmlFormat ? 'senml' : 'document'
}

/** What is answered depends on who asks, and on what they take. */
function headersOf(form: Form): Record<string, string> {
  return { 'content-type': contentTypes[form], 'cache-control': 'private, no-store', vary: 'accept, accept-encoding, authorization' }
}
