// What is made once: by one of several processes, whole or not at all.

import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../temporary-folder.ts'
import { makeOnce } from './cache.ts'

const run = promisify(execFile)
const module = JSON.stringify(new URL('./cache.ts', import.meta.url).href)

test('is made by one of several processes, and the others wait for it', async () => {
  const place = join(temporaryFolder(), 'deep', 'place')
  const code = `
    import { appendFileSync, mkdirSync } from 'node:fs'
    import { setTimeout as sleep } from 'node:timers/promises'
    import { makeOnce } from ${module}
    await makeOnce(${JSON.stringify(place)}, async draft => {
      mkdirSync(draft)
      appendFileSync(draft + '/makers', 'x')
      await sleep(300)
      appendFileSync(draft + '/makers', 'y')
    })`
  await Promise.all(Array.from({ length: 3 }, () => run(process.execPath, ['--input-type=module', '-e', code])))
  expect(readFileSync(join(place, 'makers'), 'utf8')).toBe('xy')
})

test('what a maker that died or failed has left is not taken for the whole', async () => {
  const folder = temporaryFolder()
  const place = join(folder, 'place')
  mkdirSync(`${place}.draft`)
  writeFileSync(join(`${place}.draft`, 'half'), '')
  const failing = makeOnce(place, async draft => {
    mkdirSync(draft)
    writeFileSync(join(draft, 'half'), '')
    return Promise.reject(new Error('no network'))
  })
  await expect(failing).rejects.toThrow('no network')
  expect(existsSync(place)).toBe(false)
  await makeOnce(place, async draft => {
    mkdirSync(draft)
  })
  expect(readdirSync(place)).toEqual([])
})

test('is not made again', async () => {
  const place = join(temporaryFolder(), 'place')
  await makeOnce(place, async draft => writeFileSync(draft, 'first'))
  await makeOnce(place, async draft => writeFileSync(draft, 'second'))
  expect(readFileSync(place, 'utf8')).toBe('first')
})
