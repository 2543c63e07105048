// A process for the tests of the data folder: opens it, prints how the last one ended, and waits to be killed.

import { openDataFolder } from '../../config/data-folder.ts'

const [, , path, user] = process.argv
if (user !== undefined) {
  // After the imports, because another user may not be able to enter the folder of this project.
  process.setgid!(Number(user))
  process.setuid!(Number(user))
}
const folder = await openDataFolder(path!)
console.log(folder.lastStop)
setInterval(() => {}, 1000)
