// A worker closes all that it opened.

import { expect, test } from 'vitest'
import { openClosings } from '../../../pipeline/workers/closings.ts'
import { recordingLogger } from './recording-logger.ts'

test('parts are closed in the reverse order, and one that does not close is logged and keeps no other from closing', async () => {
  const { logger, lines } = recordingLogger()
  const closings = openClosings(logger)
  const closed: string[] = []
  for (const part of ['store', 'sink', 'source']) {
    closings.add(async () => {
      if (part === 'sink') throw new Error('the sink does not close')
      closed.push(part)
    })
  }
  await closings.close()
  expect(closed).toEqual(['source', 'store'])
  expect(lines()).toMatchObject([{ msg: 'a part of the worker did not close', err: { message: 'the sink does not close' } }])
  await closings.close()
  expect(closed).toEqual(['source', 'store'])
})
