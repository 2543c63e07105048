// A worker closes everything that it has opened.

import { expect, test } from 'vitest'
import { openCleanup } from '../../../../pipeline/writer/workers/cleanup.ts'
import { recordingLogger } from './recording-logger.ts'

test('parts are closed in reverse order, and one that does not close is logged and does not keep others open', async () => {
  const { logger, lines } = recordingLogger()
  const cleanup = openCleanup(logger)
  const closed: string[] = []
  for (const part of ['store', 'sink', 'source']) {
    cleanup.add(async () => {
      if (part === 'sink') throw new Error('the sink does not close')
      closed.push(part)
    })
  }
  await cleanup.close()
  expect(closed).toEqual(['source', 'store'])
  expect(lines()).toMatchObject([{ msg: 'a part of the worker did not close', err: { message: 'the sink does not close' } }])
  await cleanup.close()
  expect(closed).toEqual(['source', 'store'])
})
