// Makes a folder durable.

import { mkdir, mkdtemp, open, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { syncTree } from '../../database/embedded/embedded.ts'

test('every file and folder is synced, each folder after its content', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-sync-'))
  await mkdir(join(folder, 'a', 'b'), { recursive: true })
  await writeFile(join(folder, 'a', 'b', 'file'), 'x')
  await writeFile(join(folder, 'top'), 'x')
  await symlink(join(folder, 'nowhere'), join(folder, 'link'))

  const file = await open(join(folder, 'top'))
  const handles = Object.getPrototypeOf(file) as typeof file
  await file.close()
  const sync = vi.spyOn(handles, 'sync')
  await syncTree(folder)
  expect(sync).toHaveBeenCalledTimes(5)
  sync.mockRestore()
  await rm(folder, { recursive: true })
})

test('a missing folder is an error', async () => {
  await expect(syncTree('/nowhere/at/all')).rejects.toThrow(/ENOENT/)
})
