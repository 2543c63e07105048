// The first start of MongoDB runs this in its shell: a user that writes messages, and one that reads them.

const passwordIn = url => /:\/\/[^:]*:([^@]*)@/.exec(url)[1]

for (const [user, url, role] of [
  ['writer', process.env.DOCUMENT_URL, 'readWrite'],
  ['reader', process.env.DOCUMENT_READER_URL, 'read'],
]) {
  db.getSiblingDB('messages').createUser({ user, pwd: passwordIn(url), roles: [{ role, db: 'messages' }] })
}
