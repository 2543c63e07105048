// Exports on their way out: every row, page after page as it is read, for as long as who asks may read and takes what comes.

import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import { HttpError } from '../config/http/errors.ts'
import { headersOf } from './answers.ts'
import { codedStream, takesGzip } from './content-coding.ts'
import { cutWhereNothingIsTaken } from './idle-client.ts'
import type { Form } from './media-type.ts'
import { printPages } from './printing.ts'
import type { Question } from './question.ts'
import type { Row } from './reader.ts'
import type { Room } from './room.ts'

export interface ExportParts {
  readonly question: Question & { kind: 'export' }
  readonly form: Form
  readonly pages: AsyncGenerator<readonly Row[]>
  /** Asked before each page: an export may last longer than a right. */
  readonly isAllowed: () => Promise<boolean>
  /** Aborts when the client goes away. */
  readonly signal: AbortSignal
  readonly room: Room
  /** Who takes a place in it. */
  readonly asker: string
  /** A client that takes nothing for so long is cut off. */
  readonly idleMsMax: number
}

/**
 * The first page is there before the answer begins, so that what is wrong by then is an error and not an end. Who asks for the head alone
 * gets it, and nothing is read.
 *
 * @throws HttpError `too_many_requests` and `unavailable` where there is no room
 */
export async function sendExport(reply: FastifyReply, parts: ExportParts): Promise<FastifyReply> {
  const { question, form, signal, room, asker, idleMsMax } = parts
  const isHead = reply.request.method === 'HEAD'
  const isCoded = takesGzip(reply.request.headers['accept-encoding'])
  const pages = whileAllowed(parts.pages, parts.isAllowed)
  if (!isHead) room.hold(asker, reply.raw)
  const first = isHead ? undefined : await pages.next()
  // Only now: the answer to a failure is not in this form.
  reply.headers(headersOf(form))
  if (isCoded) reply.header('content-encoding', 'gzip')
  // Fastify would read the whole export for it. An empty stream has no length, as the answer to GET has none.
  if (first === undefined) return reply.send(Readable.from([]))
  const { offset, selection, csvSafe, keys } = question

  async function* chunks(begun: IteratorResult<readonly Row[]>): AsyncGenerator<string | Buffer> {
    try {
      const frame = { total: undefined, offset, limit: 'all', format: selection.format, keys } as const
      yield* printPages(form, frame, begun, pages, csvSafe, signal)
    } finally {
      await pages.return(undefined)
    }
  }

  cutWhereNothingIsTaken(reply.raw, idleMsMax)
  const text = Readable.from(chunks(first), { objectMode: false, highWaterMark: 64 * 1024 })
  return reply.send(isCoded ? codedStream(text) : text)
}

/** Breaks off where who asks may read no longer. */
async function* whileAllowed<Page>(pages: AsyncGenerator<Page>, isAllowed: () => Promise<boolean>): AsyncGenerator<Page> {
  for await (const page of pages) {
    if (!(await isAllowed())) throw new HttpError('forbidden')
    yield page
  }
}
