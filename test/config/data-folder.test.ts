// The data folder: one process at a time, however the last one ended, and what is known of that end.

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, expect, test } from 'vitest'
import { DataFolderInUseError, openDataFolder } from '../../config/data-folder.ts'
import { temporaryFolder } from '../temporary-folder.ts'

const script = fileURLToPath(new URL('data-folder-process.ts', import.meta.url))
const children: ChildProcess[] = []

afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL')
})

const newPath = () => join(temporaryFolder(), 'data')

async function openElsewhere(path: string): Promise<{ child: ChildProcess; lastStop: string }> {
  const child = spawn(process.execPath, [script, path], { stdio: ['ignore', 'pipe', 'inherit'] })
  children.push(child)
  const [chunk] = (await once(child.stdout, 'data')) as [Buffer]
  return { child, lastStop: chunk.toString().trim() }
}

async function kill(child: ChildProcess): Promise<void> {
  child.kill('SIGKILL')
  await once(child, 'close')
}

test('a new folder is made for its owner only, and a clean stop is known as one', async () => {
  const path = newPath()
  const first = await openDataFolder(path)
  expect(first).toMatchObject({ path, lastStop: 'first' })
  expect(statSync(path).mode & 0o777).toBe(0o700)
  await first.markClean()
  await first.close()
  await first.close()
  const second = await openDataFolder(path)
  expect(second.lastStop).toBe('clean')
  await second.close()
})

test('a second process is refused with a sentence that names the folder, the process and what to do', async () => {
  const path = newPath()
  const { child } = await openElsewhere(path)
  const refused = await openDataFolder(path).catch((error: unknown) => error)
  expect(refused).toBeInstanceOf(DataFolderInUseError)
  expect((refused as Error).message).toBe(
    `the data folder ${path} is in use by process ${child.pid}: stop that one, or give another folder with --data`,
  )
})

test('SIGKILL leaves no lock behind, and the next start knows that the process was killed', async () => {
  const path = newPath()
  const { child } = await openElsewhere(path)
  await kill(child)
  const next = await openElsewhere(path)
  expect(next.lastStop).toBe('killed')
})

test('a process ending while the lock is waited for by nobody else gives it to exactly one of many', async () => {
  const path = newPath()
  const opened = await Promise.allSettled(Array.from({ length: 5 }, () => openDataFolder(path)))
  const won = opened.filter(result => result.status === 'fulfilled')
  expect(won).toHaveLength(1)
  await won[0]!.value.close()
})

test('an unclean stop before another boot of the machine is a power cut', async () => {
  const path = newPath()
  const folder = await openDataFolder(path)
  await folder.close()
  const statePath = join(path, 'state.json')
  const state = JSON.parse(readFileSync(statePath, 'utf8')) as object
  writeFileSync(statePath, JSON.stringify({ ...state, boot: 'another' }))
  const next = await openDataFolder(path)
  expect(next.lastStop).toBe('power-cut')
  await next.close()
})

test('a folder of a newer release is refused, and stays as it is', async () => {
  const path = newPath()
  await (await openDataFolder(path)).close()
  const statePath = join(path, 'state.json')
  const newer = JSON.stringify({ format: 99, pid: 1, boot: '', clean: true })
  writeFileSync(statePath, newer)
  await expect(openDataFolder(path)).rejects.toThrow(/has format 99 and this release reads up to 1: start the newer release/)
  expect(readFileSync(statePath, 'utf8')).toBe(newer)
  writeFileSync(statePath, JSON.stringify({ format: 1, pid: 1, boot: '', clean: true }))
  await (await openDataFolder(path)).close()
})

test('a damaged state file, and a path that is a file, are told in a sentence', async () => {
  const path = newPath()
  await (await openDataFolder(path)).close()
  writeFileSync(join(path, 'state.json'), '{"format":')
  await expect(openDataFolder(path)).rejects.toThrow('state.json is damaged')
  await expect(openDataFolder(join(path, 'state.json', 'inner'))).rejects.toThrow('a part of the path is a file')
})
